#include "lacuna/screen/splits/held_out.h"

#include <fmt/format.h>

#include <limits>
#include <unordered_map>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/screen/splits/sample_groups.h"
#include "lacuna/screen/splits/split.h"

namespace lacuna {
namespace {

// The members of Split::how that say which unit was held out. Splits that were drawn before units
// were named have all but the name.
struct Drawn {
  std::string by;      // random, stratified, gene, pair, category; empty: not known
  std::string column;  // of a split by pair or category
  bool repeats_together = false;
  std::string why = {};
  bool operator==(const Drawn&) const = default;
};

Drawn unknown(std::string why) { return {"", "", false, std::move(why)}; }

Drawn read_how(const Json& how) {
  const auto text = [&](const char* key) {
    return how.is_object() && how.contains(key) && how.at(key).is_string()
               ? how.at(key).get<std::string>()
               : std::string();
  };
  const std::string by = text("by");
  if (by == "subset" && how.contains("of")) return read_how(how.at("of"));
  if (by == "concat" && how.contains("of") && how.at("of").is_array() && !how.at("of").empty()) {
    const Drawn first = read_how(how.at("of")[0]);
    for (const Json& other : how.at("of"))
      if (!(read_how(other) == first))
        return unknown("it was joined from splits that hold out different units");
    return first;
  }
  for (const SplitBy way :
       {SplitBy::random, SplitBy::stratified, SplitBy::gene, SplitBy::pair, SplitBy::category}) {
    if (by != name(way)) continue;
    const bool together = how.contains("repeats_together") && how.at("repeats_together") == true;
    // Nothing but the named categories is test: its samples are what is left to resample.
    if (how.contains("hold_out")) return {"random", "", together};
    const bool has_column = way == SplitBy::pair || way == SplitBy::category;
    return {by, has_column ? text("column") : "", together};
  }
  return unknown("it was not drawn by lacuna, and what it holds out is not known");
}

// Numbers units in the order in which they come.
class Numbering {
 public:
  uint32_t number(uint64_t key) {
    return numbers_.try_emplace(key, uint32_t(numbers_.size())).first->second;
  }
  uint64_t count() const { return numbers_.size(); }

 private:
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

// One unit per sample, by key.
template <class Key>
HeldOutUnits by_key(std::string unit, std::span<const uint64_t> chosen, Key&& key) {
  HeldOutUnits units = {.unit = std::move(unit)};
  Numbering numbering;
  for (const uint64_t sample : chosen) {
    units.units.push_back(numbering.number(key(sample)));
    units.ptr.push_back(units.units.size());
  }
  units.count = numbering.count();
  return units;
}

HeldOutUnits by_repeats(const Screen& screen, std::span<const uint64_t> chosen) {
  GeneSets sets(screen);
  HeldOutUnits units = by_key("sets of genes", chosen, [&](uint64_t sample) {
    return hash64(std::as_bytes(std::span(sets.read(sample))));
  });
  if (units.count == chosen.size()) units.unit = "samples";
  return units;
}

// The groups that a split by pair kept together.
HeldOutUnits by_group(const Screen& screen, const Drawn& drawn, std::span<const uint64_t> chosen) {
  SampleGroups groups(screen.samples().size());
  if (drawn.repeats_together) unite_repeats(screen, groups, Progress::none());
  if (drawn.column.empty())
    unite_query_pairs(screen, groups, Progress::none());
  else
    unite_categories(find_values(screen.samples(), drawn.column), groups);
  const std::string unit =
      drawn.column.empty() ? "pairs" : fmt::format("categories of column '{}'", drawn.column);
  return by_key(unit, chosen, [&](uint64_t sample) { return groups.root(uint32_t(sample)); });
}

HeldOutUnits by_gene(const Screen& screen, const Split& split, std::span<const uint64_t> chosen) {
  GeneSets sets(screen);
  std::vector<bool> is_trained(screen.graph().genes().size());
  const auto parts = split.parts.as<uint8_t>();
  bool has_training = false;
  for (uint64_t s = 0; s < parts.size(); ++s) {
    if (Part(parts[s]) != Part::train) continue;
    has_training = true;
    for (const uint32_t gene : sets.read(s)) is_trained[gene] = true;
  }
  if (!has_training) {
    HeldOutUnits units = each_sample(chosen.size());
    units.why = "it has no training samples here, so which genes it holds out is not known";
    return units;
  }
  HeldOutUnits units = {.unit = "genes"};
  Numbering numbering;
  bool has_gene = false;
  for (const uint64_t sample : chosen) {
    const uint64_t begin = units.units.size();
    for (const uint32_t gene : sets.read(sample))
      if (!is_trained[gene]) units.units.push_back(numbering.number(gene));
    has_gene = has_gene || units.units.size() > begin;
    constexpr uint64_t kOwn = uint64_t(1) << 32;  // beyond all genes
    if (units.units.size() == begin) units.units.push_back(numbering.number(kOwn + sample));
    units.ptr.push_back(units.units.size());
  }
  units.count = numbering.count();
  if (!has_gene) {
    units.unit = "samples";
    units.why = "this part removes no gene that training does not";
  }
  return units;
}

}  // namespace

HeldOutUnits each_sample(uint64_t samples) {
  HeldOutUnits units = {.count = samples};
  for (uint64_t s = 0; s < samples; ++s) {
    units.units.push_back(uint32_t(s));
    units.ptr.push_back(s + 1);
  }
  return units;
}

HeldOutUnits held_out_units(const Screen& screen, const Split& split,
                            std::span<const uint64_t> chosen) {
  LACUNA_ASSERT(split.parts.size() == screen.samples().size());
  LACUNA_ASSERT(chosen.size() <= std::numeric_limits<uint32_t>::max());
  const Drawn drawn = read_how(split.how);
  if (drawn.by == "gene") return by_gene(screen, split, chosen);
  if (drawn.by == "pair" || drawn.by == "category") return by_group(screen, drawn, chosen);
  if (!drawn.by.empty() && drawn.repeats_together) return by_repeats(screen, chosen);
  HeldOutUnits units = each_sample(chosen.size());
  units.why = drawn.why;
  return units;
}

}  // namespace lacuna
