#include "lacuna/graph/names.h"

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"

namespace lacuna {

Names::Names(std::vector<std::string> names) : names_(std::move(names)) {
  if (names_.size() > UINT32_MAX)
    throw Error("{} names do not fit 32-bit indices; split the graph", names_.size());
  index_.reserve(names_.size());
  for (uint32_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    if (name.empty()) throw Error("line {}: the name is empty; give every node a name", i + 1);
    if (name.find_first_of("\r\n") != std::string::npos)
      throw Error("line {}: a name holds a line break; names are stored one a line", i + 1);
    const auto [place, is_new] = index_.emplace(name, i);
    if (!is_new)
      throw Error("line {}: '{}' is already on line {}; a name stands for one node", i + 1, name,
                  place->second + 1);
  }
}

std::optional<uint32_t> Names::find(std::string_view name) const {
  const auto place = index_.find(name);
  if (place == index_.end()) return std::nullopt;
  return place->second;
}

uint64_t Names::hash() const {
  Hasher hasher;
  for (const std::string& name : names_) {
    hasher.add(name);
    hasher.add("\n");  // no name contains it, so different lists give different texts
  }
  return hasher.value();
}

}  // namespace lacuna
