#include "lacuna/report/errors_by_gene.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna::report {
namespace {

constexpr uint64_t kLeastOfGene = 5, kLeastOfPair = 3;

struct KeyedError {
  uint64_t key;  // a gene, or two: the first << 32 | the second
  float predicted, measured;
};

struct Sums {
  uint64_t key = 0, count = 0;
  double absolute = 0, squared = 0, predicted = 0, measured = 0, measured_squared = 0;

  void add(double guess, double truth) {
    ++count;
    absolute += std::abs(guess - truth);
    squared += (guess - truth) * (guess - truth);
    predicted += guess;
    measured += truth;
    measured_squared += truth * truth;
  }
  GroupError error(bool is_pair) const {
    GroupError result;
    const double n = double(count);
    if (is_pair) result.genes.push_back(uint32_t(key >> 32));
    result.genes.push_back(uint32_t(key));
    result.count = count;
    result.mean_absolute = absolute / n;
    result.measured = measured / n;
    result.predicted = predicted / n;
    result.mean = result.predicted - result.measured;
    const double variance = measured_squared / n - result.measured * result.measured;
    // Of equal measurements rounding leaves a little.
    const bool has_spread = variance > 1e-12 * (measured_squared / n);
    result.spread = has_spread ? std::sqrt(variance) : 0;
    result.relative = has_spread ? std::sqrt(squared / n) / result.spread : kNotDefined;
    return result;
  }
};

std::vector<Sums> sum_by_key(std::vector<KeyedError> errors) {
  std::stable_sort(errors.begin(), errors.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  std::vector<Sums> groups;
  for (const auto& [key, predicted, measured] : errors) {
    if (groups.empty() || groups.back().key != key) groups.push_back({.key = key});
    groups.back().add(double(predicted), double(measured));
  }
  return groups;
}

GroupErrors rank(std::vector<Sums> sums, bool is_pair, size_t shown) {
  uint64_t least = is_pair ? kLeastOfPair : kLeastOfGene;
  const auto is_small = [&](const Sums& group) { return group.count < least; };
  GroupErrors result;
  if (std::all_of(sums.begin(), sums.end(), is_small)) least = 1;
  result.least = least;
  result.smaller = std::erase_if(sums, is_small);
  result.groups = sums.size();
  std::vector<GroupError> groups;
  for (const Sums& sum : sums) groups.push_back(sum.error(is_pair));
  const auto value = [&](const GroupError& group) {
    return is_pair ? group.mean_absolute : group.relative;
  };
  std::sort(groups.begin(), groups.end(), [&](const GroupError& a, const GroupError& b) {
    const double x = value(a), y = value(b);
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    return x != y && !std::isnan(x) ? x > y : a.genes < b.genes;
  });
  for (const GroupError& group : groups) result.all.push_back(value(group));
  groups.resize(std::min(shown, groups.size()));
  result.worst = std::move(groups);
  return result;
}

}  // namespace

ErrorsByGene errors_by_gene(const Screen& screen, const PartPredictions& predictions,
                            uint64_t label, size_t shown, uint64_t most_pairs) {
  const uint64_t labels = predictions.label_count();
  LACUNA_ASSERT(predictions.samples.empty() || label < labels);
  GeneSets sets(screen);
  std::vector<KeyedError> of_genes, of_pairs;
  ErrorsByGene result;
  for (uint64_t row = 0; row < predictions.samples.size(); ++row) {
    const uint64_t sample = predictions.samples[row];
    if (sample >= sets.size())
      throw Error(
          "predictions of part '{}' hold sample {}, but {} has {} samples; run `lacuna "
          "evaluate` again",
          name(predictions.part), sample, screen.path().string(), sets.size());
    const uint64_t at = row * labels + label;
    const float predicted = predictions.predicted[at], measured = predictions.measured[at];
    const double error = double(predicted) - double(measured);
    if (!std::isfinite(error)) continue;
    ++result.samples;
    result.mean_absolute += std::abs(error);
    const auto& genes = sets.read(sample);
    result.all_pairs += genes.size() * (genes.size() - 1) / 2;
    result.has_too_many_pairs = result.all_pairs > most_pairs;
    if (result.has_too_many_pairs) of_pairs = {};
    for (size_t i = 0; i < genes.size(); ++i) {
      of_genes.push_back({genes[i], predicted, measured});
      if (result.has_too_many_pairs) continue;
      for (size_t j = i + 1; j < genes.size(); ++j)
        of_pairs.push_back({uint64_t(genes[i]) << 32 | genes[j], predicted, measured});
    }
  }
  if (result.samples > 0) result.mean_absolute /= double(result.samples);
  result.genes = rank(sum_by_key(std::move(of_genes)), false, shown);
  result.pairs = rank(sum_by_key(std::move(of_pairs)), true, shown);
  return result;
}

}  // namespace lacuna::report
