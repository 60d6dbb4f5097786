#include "lacuna/screen/splits/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/text/json.h"
#include "lacuna/core/text/nearest.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {
namespace {

constexpr std::array<std::pair<SplitBy, std::string_view>, 5> kWays = {
    {{SplitBy::random, "random"},
     {SplitBy::stratified, "stratified"},
     {SplitBy::gene, "gene"},
     {SplitBy::pair, "pair"},
     {SplitBy::category, "category"}}};

constexpr std::array<Part, 4> kParts = {Part::train, Part::validation, Part::test, Part::unused};

std::array<double, 4> all_fractions(const std::array<double, 3>& given) {
  double sum = 0;
  for (const double fraction : given) {
    if (!(fraction >= 0 && fraction <= 1))
      throw UsageError("fraction {} of a split is not between 0 and 1", fraction);
    sum += fraction;
  }
  if (sum > 1 + 1e-9)
    throw UsageError("fractions {} add up to {}, more than 1", fmt::join(given, ", "), sum);
  return {given[0], given[1], given[2], std::max(0.0, 1 - sum) < 1e-9 ? 0.0 : 1 - sum};
}

// A stratum for every sample: its category, or the bin of its number; unknown is the last one.
std::vector<uint32_t> find_strata(const Column& column, uint32_t bins) {
  const uint64_t count = column.values.size();
  std::vector<uint32_t> strata(count);
  if (column.is_category()) {
    for (uint64_t s = 0; s < count; ++s)
      strata[s] = column.code(s).value_or(uint32_t(column.categories.size()));
    return strata;
  }
  std::vector<double> known;
  for (uint64_t s = 0; s < count; ++s)
    if (!std::isnan(column.number(s))) known.push_back(column.number(s));
  std::sort(known.begin(), known.end());
  std::vector<double> edges;  // the lowest value of bins 1, 2, ...
  for (uint32_t b = 1; b < bins && !known.empty(); ++b)
    edges.push_back(known[known.size() * b / bins]);
  for (uint64_t s = 0; s < count; ++s) {
    const double value = column.number(s);
    const auto bin = std::upper_bound(edges.begin(), edges.end(), value) - edges.begin();
    strata[s] = std::isnan(value) ? bins : uint32_t(bin);
  }
  return strata;
}

// Groups in random order, stratum after stratum, each to the part that is furthest behind its
// fraction of the samples dealt so far: every run of samples, so every stratum, is shared out.
std::vector<uint8_t> deal(SampleGroups& groups, const std::vector<uint32_t>& strata,
                          const std::array<double, 4>& fractions, uint64_t seed) {
  const uint64_t count = strata.size();
  std::vector<uint32_t> sizes(count), order;
  for (uint32_t s = 0; s < count; ++s) {
    const uint32_t root = groups.root(s);
    if (sizes[root]++ == 0) order.push_back(root);
  }
  Random random(seed);
  shuffle(order, random);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return strata[a] < strata[b]; });
  std::vector<uint8_t> parts(count);
  std::array<uint64_t, 4> dealt = {};
  uint64_t total = 0;
  for (const uint32_t group : order) {
    total += sizes[group];
    size_t best = 0;
    double most_wanting = -INFINITY;
    for (size_t p = 0; p < 4; ++p) {
      const double wanting = fractions[p] * double(total) - double(dealt[p]);
      if (fractions[p] > 0 && wanting > most_wanting) {
        most_wanting = wanting;
        best = p;
      }
    }
    dealt[best] += sizes[group];
    parts[group] = uint8_t(kParts[best]);
  }
  for (uint32_t s = 0; s < count; ++s) parts[s] = parts[groups.root(s)];
  return parts;
}

// How many groups there are, and how large the largest is: why shares may be missed.
void describe_groups(SampleGroups& groups, Json& how) {
  std::vector<uint32_t> sizes(groups.size());
  for (uint32_t s = 0; s < groups.size(); ++s) ++sizes[groups.root(s)];
  how["groups"] = groups.size() - uint64_t(std::count(sizes.begin(), sizes.end(), 0u));
  how["largest_group"] = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

// ---- by named categories

// For every sample whether its category is one of `wanted`.
std::vector<bool> is_in_categories(const Column& column, const std::vector<std::string>& wanted) {
  std::vector<bool> is_wanted(column.categories.size());
  for (const auto& category : wanted) {
    const auto at = std::find(column.categories.begin(), column.categories.end(), category);
    if (at == column.categories.end())
      throw Error("column '{}' has no category '{}' to hold out; did you mean '{}'?", column.name,
                  category, nearest_word(category, column.categories));
    is_wanted[size_t(at - column.categories.begin())] = true;
  }
  std::vector<bool> is_in(column.values.size());
  for (uint64_t s = 0; s < is_in.size(); ++s) {
    const auto code = column.code(s);
    is_in[s] = code && *code < is_wanted.size() && is_wanted[*code];
  }
  return is_in;
}

// Test is what was named. Groups without a test sample come first and are dealt out among the other
// parts; a sample that shares a group with a test sample would give its label away.
std::vector<uint8_t> hold_out_categories(SampleGroups& groups, const std::vector<bool>& is_test,
                                         std::array<double, 4> fractions, uint64_t seed,
                                         Json& how) {
  fractions[2] = 0;
  const double rest = fractions[0] + fractions[1] + fractions[3];
  if (rest == 0) throw UsageError("all samples but the held out ones would be unused");
  for (double& fraction : fractions) fraction /= rest;
  std::vector<uint32_t> is_met(is_test.size());  // by a test sample of the same group
  for (uint32_t s = 0; s < is_test.size(); ++s)
    if (is_test[s]) is_met[groups.root(s)] = 1;
  for (uint32_t s = 0; s < is_test.size(); ++s) is_met[s] = is_met[groups.root(s)];
  std::vector<uint8_t> parts = deal(groups, is_met, fractions, seed);
  uint64_t unused = 0;
  for (uint32_t s = 0; s < is_test.size(); ++s) {
    if (!is_met[s]) continue;
    parts[s] = uint8_t(is_test[s] ? Part::test : Part::unused);
    if (!is_test[s]) ++unused;
  }
  how["unused_repeats"] = unused;
  return parts;
}

// ---- by gene

// Holds genes out, in the given order, until `wanted` training samples have become `part`: first
// those that fit, then the one that exceeds it least, if that comes nearer to `wanted`. Returns how
// many genes.
uint64_t hold_out_genes(const SamplesOfGenes& all, const std::vector<uint32_t>& order, Part part,
                        uint64_t wanted, std::vector<uint8_t>& parts) {
  const auto still_training = [&](uint32_t gene) {
    const auto samples = all.of(gene);
    return uint64_t(std::count_if(samples.begin(), samples.end(),
                                  [&](uint32_t s) { return Part(parts[s]) == Part::train; }));
  };
  const auto hold_out = [&](uint32_t gene) {
    for (const uint32_t s : all.of(gene))
      if (Part(parts[s]) == Part::train) parts[s] = uint8_t(part);
  };
  uint64_t taken = 0, genes = 0;
  for (const uint32_t gene : order) {
    const uint64_t more = still_training(gene);
    if (more == 0 || taken + more > wanted) continue;
    hold_out(gene);
    taken += more;
    ++genes;
  }
  std::optional<uint32_t> smallest;
  uint64_t fewest = 2 * (wanted - taken);  // with this many it would be no nearer
  for (const uint32_t gene : order) {
    const uint64_t more = still_training(gene);
    if (more == 0 || more >= fewest) continue;
    smallest = gene;
    fewest = more;
  }
  if (smallest) hold_out(*smallest);
  return genes + (smallest ? 1 : 0);
}

std::vector<uint8_t> split_by_gene(const Screen& screen, const std::array<double, 4>& fractions,
                                   uint64_t seed, Json& how) {
  const SamplesOfGenes all(screen);
  const uint32_t gene_count = screen.graph().genes().size();
  const uint64_t count = screen.samples().size();
  Random random(seed);
  std::vector<uint32_t> order(gene_count);
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, random);
  std::vector<uint8_t> parts(count, uint8_t(Part::train));
  const auto wanted = [&](size_t part) {
    return uint64_t(std::llround(fractions[part] * double(count)));
  };
  how["test_genes"] = hold_out_genes(all, order, Part::test, wanted(2), parts);
  how["validation_genes"] = hold_out_genes(all, order, Part::validation, wanted(1), parts);
  uint64_t groups = 0, largest = 0;  // of a gene: the samples that remove it
  for (uint32_t gene = 0; gene < gene_count; ++gene) {
    groups += all.of(gene).empty() ? 0 : 1;
    largest = std::max(largest, uint64_t(all.of(gene).size()));
  }
  how["groups"] = groups;
  how["largest_group"] = largest;
  if (fractions[3] == 0) return parts;
  std::vector<uint32_t> training;
  for (uint32_t s = 0; s < count; ++s)
    if (Part(parts[s]) == Part::train) training.push_back(s);
  shuffle(training, random);
  for (size_t i = wanted(0); i < training.size(); ++i) parts[training[i]] = uint8_t(Part::unused);
  return parts;
}

// A fold for each gene that a sample removes, `folds` for others: [genes]. Genes of about as many
// samples stand side by side, and are dealt out in random order.
std::vector<uint64_t> deal_genes(const SamplesOfGenes& all, uint32_t genes, uint64_t folds,
                                 Random& random) {
  std::vector<uint32_t> order = shuffled(genes, random);
  std::erase_if(order, [&](uint32_t gene) { return all.of(gene).empty(); });
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return all.of(a).size() > all.of(b).size(); });
  if (order.size() < folds)
    throw Error("{} folds of {} genes leave some without a gene; draw fewer", folds, order.size());
  std::vector<uint64_t> fold_of(genes, folds);
  for (size_t begin = 0; begin < order.size(); begin += folds) {
    const std::vector<uint32_t> deal = shuffled(uint32_t(folds), random);
    for (size_t i = begin; i < std::min(order.size(), begin + folds); ++i)
      fold_of[order[i]] = deal[i - begin];
  }
  return fold_of;
}

// ----

void check_options(const DrawOptions& options) {
  if (options.by == SplitBy::stratified && options.column.empty())
    throw UsageError("a stratified split needs a column or a label to stratify by");
  if (options.by == SplitBy::stratified && options.bins < 2)
    throw UsageError("{} bins do not stratify; use at least 2", options.bins);
  if (options.by == SplitBy::category && options.column.empty())
    throw UsageError("a split by category needs a column whose categories are held out");
  if (options.by != SplitBy::category && !options.hold_out.empty())
    throw UsageError("categories to hold out go with a split by category, not by {}",
                     name(options.by));
  if ((options.by == SplitBy::random || options.by == SplitBy::gene) && !options.column.empty())
    throw UsageError("a split by {} uses no column, but '{}' was given", name(options.by),
                     options.column);
}

Column find_categories(const Screen& screen, const DrawOptions& options) {
  Column column = find_values(screen.samples(), options.column);
  if (!column.is_category())
    throw Error("column '{}' holds numbers; a split by {} needs categories", options.column,
                name(options.by));
  return column;
}

std::vector<uint8_t> split_by_groups(const Screen& screen, const DrawOptions& options,
                                     const std::array<double, 4>& fractions, Json& how,
                                     Progress& progress) {
  const uint64_t count = screen.samples().size();
  SampleGroups groups(count);
  std::vector<uint32_t> strata(count);
  if (options.repeats_together) unite_repeats(screen, groups, progress);
  if (options.by == SplitBy::stratified)
    strata = find_strata(find_values(screen.samples(), options.column), options.bins);
  if (!options.hold_out.empty()) {
    const auto is_test = is_in_categories(find_categories(screen, options), options.hold_out);
    return hold_out_categories(groups, is_test, fractions, options.seed, how);
  }
  describe_groups(groups, how);
  const Json without_units = how["groups"];
  if (options.by == SplitBy::pair && options.column.empty())
    unite_query_pairs(screen, groups, progress);
  if ((options.by == SplitBy::pair || options.by == SplitBy::category) && !options.column.empty())
    unite_categories(find_categories(screen, options), groups);
  describe_groups(groups, how);
  if (options.by == SplitBy::pair || options.by == SplitBy::category)
    how["same_as_random"] = how["groups"] == without_units;
  return deal(groups, strata, fractions, options.seed);
}

// What is held out, for people and for held_out.h.
std::string unit_of(const DrawOptions& options) {
  if (options.by == SplitBy::gene) return "genes";
  const bool is_by_unit = options.by == SplitBy::pair || options.by == SplitBy::category;
  if (!is_by_unit || !options.hold_out.empty()) return "samples";
  return options.column.empty() ? "pairs"
                                : fmt::format("categories of column '{}'", options.column);
}

Json count_parts(const std::vector<uint8_t>& parts) {
  Json counts;
  for (const Part part : kParts)
    counts[std::string(name(part))] = std::count(parts.begin(), parts.end(), uint8_t(part));
  return counts;
}

void check_not_empty(const Json& how, const std::array<double, 4>& fractions, SplitBy by) {
  const std::string groups =
      how.contains("groups")
          ? fmt::format(" ({} groups, the largest of {} samples)", how.at("groups").get<uint64_t>(),
                        how.at("largest_group").get<uint64_t>())
          : "";
  for (size_t p = 0; p < 3; ++p)
    if (fractions[p] > 0 && how.at("counts").at(std::string(name(kParts[p]))) == 0)
      throw Error(
          "no sample is left for {} in a split by {}: the samples hang together too much "
          "or are too few{}; change the fractions or split in another way",
          name(kParts[p]), name(by), groups);
}

}  // namespace

std::string_view name(SplitBy by) {
  for (const auto& [way, word] : kWays)
    if (way == by) return word;
  LACUNA_ASSERT(false);
  return {};
}

SplitBy split_by_from_name(std::string_view name) {
  for (const auto& [way, word] : kWays)
    if (word == name) return way;
  throw UsageError("'{}' is no way to split; use random, stratified, gene, pair or category", name);
}

Split draw_split(const Screen& screen, std::string name, const DrawOptions& options,
                 Progress& progress) {
  check_options(options);
  const auto fractions = all_fractions(options.fractions);
  if (screen.samples().size() > UINT32_MAX)
    throw Error("a split of more than 2^32 samples is not supported; draw it of a subset");
  Json how = {
      {"by", lacuna::name(options.by)}, {"seed", options.seed}, {"fractions", options.fractions}};
  how["unit"] = unit_of(options);
  if (!options.column.empty()) how["column"] = options.column;
  if (options.by == SplitBy::stratified) how["bins"] = options.bins;
  if (!options.hold_out.empty()) how["hold_out"] = options.hold_out;
  if (options.by != SplitBy::gene) how["repeats_together"] = options.repeats_together;
  std::vector<uint8_t> parts = options.by == SplitBy::gene
                                   ? split_by_gene(screen, fractions, options.seed, how)
                                   : split_by_groups(screen, options, fractions, how, progress);
  how["counts"] = count_parts(parts);
  check_not_empty(how, fractions, options.by);
  return {std::move(name), Array::from(std::move(parts)), std::move(how)};
}

std::vector<Split> draw_gene_folds(const Screen& screen, const std::string& name, uint64_t folds,
                                   const DrawOptions& options) {
  if (options.by != SplitBy::gene)
    throw UsageError("folds are drawn by gene, not by {}", lacuna::name(options.by));
  if (folds < 2) throw UsageError("{} folds hold out nothing that is left to train on", folds);
  check_options(options);
  const auto fractions = all_fractions(options.fractions);
  const uint32_t genes = screen.graph().genes().size();
  const uint64_t count = screen.samples().size();
  if (count > UINT32_MAX)
    throw Error("a split of more than 2^32 samples is not supported; draw it of a subset");
  const SamplesOfGenes all(screen);
  Random random(options.seed);
  const std::vector<uint64_t> fold_of = deal_genes(all, genes, folds, random);
  const std::vector<uint32_t> order = shuffled(genes, random);  // for validation
  std::vector<Split> splits;
  for (uint64_t fold = 0; fold < folds; ++fold) {
    std::vector<uint8_t> parts(count, uint8_t(Part::train));
    uint64_t test_genes = 0;
    for (uint32_t gene = 0; gene < genes; ++gene) {
      if (fold_of[gene] != fold) continue;
      ++test_genes;
      for (const uint32_t sample : all.of(gene)) parts[sample] = uint8_t(Part::test);
    }
    Json how = {{"by", "gene"}, {"seed", options.seed}, {"unit", "genes"}};
    how["folds"] = {{"name", name}, {"fold", fold + 1}, {"of", folds}};
    how["validation_fraction"] = fractions[1];
    how["test_genes"] = test_genes;
    how["validation_genes"] = hold_out_genes(
        all, order, Part::validation, uint64_t(std::llround(fractions[1] * double(count))), parts);
    how["counts"] = count_parts(parts);
    check_not_empty(how, {1, fractions[1], 1, 0}, SplitBy::gene);
    splits.push_back(
        {fmt::format("{}-{}", name, fold + 1), Array::from(std::move(parts)), std::move(how)});
  }
  return splits;
}

Split split_from_json(const Screen& screen, std::string name, const fs::path& file) {
  std::array<std::vector<uint64_t>, 3> lists;  // samples of train, validation, test
  try {
    const Json json = read_json(file);
    if (!json.is_object()) throw Error("not an object of lists: train, validation, test");
    for (const auto& [key, list] : json.items()) {
      const Part part = part_from_name(key);
      if (!list.is_array()) throw Error("'{}' is not a list of sample numbers", key);
      if (part == Part::unused) continue;
      for (const auto& sample : list) {
        if (!sample.is_number_unsigned())
          throw Error("{} in '{}' is not the number of a sample", sample.dump(), key);
        lists[size_t(part)].push_back(sample.get<uint64_t>());
      }
    }
    Json how = {{"by", "import"},
                {"source",
                 {{"path", file.string()},
                  {"bytes", fs::file_size(file)},
                  {"xxh3", hex(hash_file(file))}}}};
    std::vector<uint8_t> parts(screen.samples().size(), uint8_t(Part::unused));
    for (const Part part : {Part::train, Part::validation, Part::test})
      for (const uint64_t sample : lists[size_t(part)]) {
        if (sample >= parts.size())
          throw Error("split '{}' puts sample {} into {}, but there are {} samples (from 0)", name,
                      sample, lacuna::name(part), parts.size());
        const Part before = Part(parts[sample]);
        if (before != Part::unused && before != part)
          throw Error("split '{}' puts sample {} into {} and {}", name, sample,
                      lacuna::name(before), lacuna::name(part));
        parts[sample] = uint8_t(part);
      }
    how["counts"] = count_parts(parts);
    return {std::move(name), Array::from(std::move(parts)), std::move(how)};
  } catch (const Error& error) {
    const std::string_view words = error.what();
    if (words.starts_with(file.string())) throw;
    throw Error("{}: {}", file.string(), words);
  }
}

}  // namespace lacuna
