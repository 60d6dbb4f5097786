// The names of the nodes of one type. A node's index is its place in the list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lacuna {

class Names {
 public:
  Names() = default;
  // Throws Error for a repeated or empty name, or one with a line break, with its line number.
  explicit Names(std::vector<std::string> names);

  uint32_t size() const { return uint32_t(names_.size()); }
  const std::string& operator[](uint32_t index) const { return names_[index]; }
  const std::vector<std::string>& all() const { return names_; }
  std::optional<uint32_t> find(std::string_view name) const;
  uint64_t hash() const;  // of the names in order

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> index_;
};

}  // namespace lacuna
