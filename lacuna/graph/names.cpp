#include "lacuna/graph/names.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/nearest.h"

namespace lacuna {
namespace {

// Letters of ASCII; others stay as they are.
std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return lower;
}

}  // namespace

Names::Names(std::vector<std::string> names) : names_(std::move(names)) {
  if (names_.size() > UINT32_MAX)
    throw Error("{} names do not fit 32-bit indices; split the graph", names_.size());
  index_.reserve(names_.size());
  folded_.reserve(names_.size());
  for (uint32_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    if (name.empty()) throw Error("line {}: the name is empty; give every node a name", i + 1);
    if (name.find_first_of("\r\n") != std::string::npos)
      throw Error("line {}: a name holds a line break; names are stored one a line", i + 1);
    const auto [place, is_new] = index_.emplace(name, i);
    if (!is_new)
      throw Error("line {}: '{}' is already on line {}; a name stands for one node", i + 1, name,
                  place->second + 1);
    put(folded_, in_lower_case(name), i);
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

void Names::put(Index& index, std::string name, uint32_t node) {
  const auto [entry, is_new] = index.try_emplace(std::move(name), node);
  if (!is_new && entry->second != node) entry->second = kSeveral;
}

void Names::add_alias(std::string_view alias, uint32_t index) {
  LACUNA_ASSERT(index < size());
  if (alias.empty() || alias.find_first_of("\t\r\n") != alias.npos)
    throw Error("'{}' cannot be another name of '{}': it is empty, or holds a tab or a line break",
                alias, names_[index]);
  if (find(alias)) return;
  aliases_of_.resize(names_.size());
  std::vector<std::string>& own = aliases_of_[index];
  if (std::ranges::find(own, alias) != own.end()) return;
  own.emplace_back(alias);
  put(aliases_, std::string(alias), index);
  put(folded_, in_lower_case(alias), index);
}

const std::vector<std::string>& Names::aliases(uint32_t index) const {
  static const std::vector<std::string> none;
  return aliases_of_.empty() ? none : aliases_of_[index];
}

uint64_t Names::ambiguous_count() const {
  return uint64_t(
      std::ranges::count_if(aliases_, [](const auto& entry) { return entry.second == kSeveral; }));
}

std::string Names::shown(uint32_t index) const {
  const std::vector<std::string>& others = aliases(index);
  return others.empty() ? names_[index] : fmt::format("{} ({})", others.front(), names_[index]);
}

Names::Found Names::found(const Index& index, std::string_view name, Match match) {
  const auto place = index.find(name);
  if (place == index.end()) return {Match::none, 0};
  if (place->second == kSeveral) return {Match::ambiguous, 0};
  return {match, place->second};
}

Names::Found Names::look_up(std::string_view name, Case letters) const {
  if (const auto own = find(name)) return {Match::own, *own};
  if (const Found alias = found(aliases_, name, Match::alias); alias.match != Match::none)
    return alias;
  if (const size_t open = name.rfind(" ("); open != name.npos && name.ends_with(')')) {
    const auto own = find(name.substr(open + 2, name.size() - open - 3));
    if (own && name == shown(*own)) return {Match::shown, *own};
  }
  if (letters == Case::exact) return {Match::none, 0};
  return found(folded_, in_lower_case(name), Match::other_case);
}

uint32_t Names::nearest(std::string_view name) const {
  LACUNA_ASSERT(size() > 0);
  constexpr size_t kCompared = 100;  // first letters only: time grows with the square
  const std::string_view word = name.substr(0, kCompared);
  uint32_t best = 0;
  size_t fewest = SIZE_MAX;
  const auto compare = [&](std::string_view other, uint32_t index) {
    other = other.substr(0, kCompared);
    const size_t longer = std::max(word.size(), other.size());
    if (longer - std::min(word.size(), other.size()) >= fewest) return;
    const size_t apart = letters_apart(word, other);
    if (apart >= fewest) return;
    fewest = apart;
    best = index;
  };
  for (uint32_t i = 0; i < size(); ++i) {
    compare(names_[i], i);
    for (const std::string& alias : aliases(i)) compare(alias, i);
  }
  return best;
}

std::string Names::why_not(std::string_view name, std::string_view kind) const {
  if (look_up(name).match != Match::ambiguous)
    return size() == 0 ? fmt::format("there is no {} '{}'", kind, name)
                       : fmt::format("there is no {} '{}'; did you mean '{}'?", kind, name,
                                     shown(nearest(name)));
  const std::string folded = in_lower_case(name);
  std::vector<std::string> several;
  for (uint32_t i = 0; i < size(); ++i) {
    const auto is_meant = [&](const std::string& other) { return in_lower_case(other) == folded; };
    if (is_meant(names_[i]) || std::ranges::any_of(aliases(i), is_meant))
      several.push_back(names_[i]);
  }
  return fmt::format("'{}' is an alias of several {}s ({}); write one of them", name, kind,
                     fmt::join(several, ", "));
}

}  // namespace lacuna
