#include "lacuna/core/shard.h"

#include <charconv>

namespace lacuna {

Shard parse_shard(const std::string& text) {
  constexpr uint64_t kMost = 1'000'000;
  uint64_t index = 0, count = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, index);
  const bool has_slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = has_slash ? std::from_chars(first.ptr + 1, end, count) : first;
  const bool is_whole = has_slash && second.ec == std::errc() && second.ptr == end;
  if (!is_whole || index < 1 || index > count || count > kMost)
    throw UsageError("'{}' is no shard; write which one of how many, from 1/4 to 4/4", text);
  return {index - 1, count};
}

}  // namespace lacuna
