#include "lacuna/screen/splits/split_notes.h"

#include <array>
#include <cmath>
#include <span>
#include <unordered_set>
#include <utility>

#include "lacuna/core/hash.h"
#include "lacuna/core/text/text.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {
namespace {

constexpr std::array<Part, 3> kAsked = {Part::train, Part::validation, Part::test};

// "test has 4.1% (asked: 10.0%)" for each part that misses its share.
std::vector<std::string> missed_shares(const Json& how) {
  const Json& counts = how.at("counts");
  double total = 0;
  for (const auto& [part, count] : counts.items()) total += count.get<double>();
  std::vector<std::string> missed;
  for (size_t p = 0; p < kAsked.size(); ++p) {
    const double asked = how.at("fractions").at(p).get<double>();
    const double count = counts.at(std::string(name(kAsked[p]))).get<double>();
    const double off = std::abs(count - asked * total);
    if (asked == 0 || off <= 0.1 * asked * total || off <= 1) continue;
    missed.push_back(fmt::format("{} has {:.1f}% (asked: {:.1f}%)", name(kAsked[p]),
                                 100 * count / total, 100 * asked));
  }
  return missed;
}

std::string reason(const Json& how, const std::string& by) {
  const uint64_t groups = how.at("groups"), largest = how.at("largest_group");
  const std::string most = fmt::format("the largest has {} samples", with_commas(largest));
  if (by == "gene")
    return fmt::format("a gene takes all its samples along, and of {} removed genes {}",
                       with_commas(groups), most);
  if (by == "pair" || by == "category")
    return fmt::format("what is held out as a whole is few and large: {} groups of samples, {}",
                       with_commas(groups), most);
  return fmt::format("samples of the same set of genes stay together: {} sets, {}",
                     with_commas(groups), most);
}

std::string help(const std::string& by) {
  const std::string always = "another --seed or other --fractions";
  if (by == "gene") return always + ", or --by pair";
  if (by == "pair") return always + ", or a unit that is smaller (--by gene, --by category)";
  if (by == "category") return always + ", a column of smaller categories, or --hold-out by name";
  return always + ", or --repeats apart";
}

}  // namespace

std::vector<std::string> split_notes(const Split& split) {
  const Json& how = split.how;
  std::vector<std::string> notes;
  if (!how.is_object()) return notes;
  const std::string by = how.value("by", "");
  if (const uint64_t unused = how.value("unused_repeats", uint64_t(0)))
    notes.push_back(fmt::format(
        "{} samples are unused: they remove the same genes as a held-out one, which training "
        "could look up; --repeats apart trains on them",
        with_commas(unused)));
  if (!how.contains("groups")) return notes;
  if (how.value("same_as_random", false))
    notes.push_back(fmt::format(
        "this equals a random split: no {} is shared by samples of different genes, so nothing "
        "more is held out; --by gene holds out what training never saw",
        by == "pair" ? "pair" : "category"));
  if (const auto missed = missed_shares(how); !missed.empty())
    notes.push_back(fmt::format("{}: {}. What would help: {}", fmt::join(missed, ", "),
                                reason(how, by), help(by)));
  return notes;
}

std::string SharedSets::words(const std::string& split) const {
  if (validation + test == 0) return {};
  return fmt::format(
      "split '{}': {} samples of test and {} of validation remove a set of genes that a training "
      "sample removes too, so their labels could be looked up; draw a new split with `lacuna "
      "split`, which keeps them together",
      split, with_commas(test), with_commas(validation));
}

SharedSets count_shared_sets(const Samples& samples, uint32_t gene_count, const Split& split) {
  GeneSets sets(samples, gene_count);
  const auto parts = split.parts.as<uint8_t>();
  const auto key = [&](uint64_t s) { return hash64(std::as_bytes(std::span(sets.read(s)))); };
  std::unordered_set<uint64_t> trained;
  for (uint64_t s = 0; s < parts.size(); ++s)
    if (Part(parts[s]) == Part::train) trained.insert(key(s));
  SharedSets shared;
  for (uint64_t s = 0; s < parts.size(); ++s) {
    const Part part = Part(parts[s]);
    if (part != Part::validation && part != Part::test) continue;
    if (trained.contains(key(s))) ++(part == Part::test ? shared.test : shared.validation);
  }
  return shared;
}

}  // namespace lacuna
