// The names of the nodes of one type, and what else they are called. A node's index is its place in
// the list.
//
//   Names genes({"YAL002W", "YAL003W"});
//   genes.add_alias("VPS8", 0);
//   genes.look_up("vps8");           // {alias, 0}: case counts only where two nodes differ in it
//   genes.shown(0);                  // "VPS8 (YAL002W)", which look_up() takes too
//
// Aliases are no part of hash(): what is computed does not depend on them.
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
  std::optional<uint32_t> find(std::string_view name) const;  // by its own name, exactly
  uint64_t hash() const;                                      // of the names in order

  // The first alias of a node is the one that is shown. An alias that is a node's own name has no
  // effect; one of several nodes leads to none of them. Throws Error for an empty alias, and one
  // with a tab or a line break.
  void add_alias(std::string_view alias, uint32_t index);
  // In the order they were added.
  const std::vector<std::string>& aliases(uint32_t index) const;
  uint64_t alias_count() const { return aliases_.size(); }  // different ones
  uint64_t ambiguous_count() const;                         // of them, those of several nodes
  std::string shown(uint32_t index) const;                  // "VPS8 (YAL002W)", or its own name

  enum class Case { fold, exact };
  enum class Match { none, own, alias, shown, other_case, ambiguous };
  struct Found {
    Match match;
    uint32_t index;  // where there is one

    explicit operator bool() const { return match != Match::none && match != Match::ambiguous; }
  };
  // A node's own name, else an alias of exactly one node, else a name as shown() writes it; else,
  // where case is folded, the one node that has this name or alias in other letters' case.
  Found look_up(std::string_view name, Case letters = Case::fold) const;
  // The node whose name or alias has the fewest letters that differ. Only where there are nodes.
  uint32_t nearest(std::string_view name) const;
  // For a name that look_up() does not find: "there is no gene 'VSP8'; did you mean 'VPS8
  // (YAL002W)'?", or that it is an alias of several, and of which.
  std::string why_not(std::string_view name, std::string_view kind = "gene") const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Index = std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>>;
  static constexpr uint32_t kSeveral = UINT32_MAX;
  static void put(Index& index, std::string name, uint32_t node);
  static Found found(const Index& index, std::string_view name, Match match);

  std::vector<std::string> names_;
  Index index_;
  Index aliases_;  // kSeveral: of more than one node
  Index folded_;   // names and aliases in lower case, kSeveral likewise
  std::vector<std::vector<std::string>> aliases_of_;  // [N], or empty where there are none
};

}  // namespace lacuna
