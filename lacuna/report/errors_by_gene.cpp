#include "lacuna/report/errors_by_gene.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "lacuna/core/error.h"
#include "lacuna/screen/sample_groups.h"

namespace lacuna::report {
namespace {

constexpr uint64_t kLeastOfGene = 5, kLeastOfPair = 3;

struct KeyedError {
  uint64_t key;
  double error;
};

struct Sums {
  uint64_t key = 0, count = 0;
  double absolute = 0, signed_sum = 0;
  double mean_absolute() const { return absolute / double(count); }
};

std::vector<Sums> sum_by_key(std::vector<KeyedError> errors) {
  std::stable_sort(errors.begin(), errors.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  std::vector<Sums> groups;
  for (const auto& [key, error] : errors) {
    if (groups.empty() || groups.back().key != key) groups.push_back({.key = key});
    ++groups.back().count;
    groups.back().absolute += std::abs(error);
    groups.back().signed_sum += error;
  }
  return groups;
}

GroupErrors rank(std::vector<Sums> groups, uint64_t least, size_t shown,
                 const std::function<std::string(uint64_t)>& name_of) {
  const auto is_small = [&](const Sums& group) { return group.count < least; };
  GroupErrors result;
  if (std::all_of(groups.begin(), groups.end(), is_small)) least = 1;
  result.least = least;
  result.smaller = std::erase_if(groups, is_small);
  result.groups = groups.size();
  std::sort(groups.begin(), groups.end(), [](const Sums& a, const Sums& b) {
    const double x = a.mean_absolute(), y = b.mean_absolute();
    return x != y ? x > y : a.key < b.key;
  });
  for (const auto& group : groups) {
    result.mean_absolute.push_back(group.mean_absolute());
    if (result.worst.size() < shown)
      result.worst.push_back({.name = name_of(group.key),
                              .count = group.count,
                              .mean_absolute = group.mean_absolute(),
                              .mean = group.signed_sum / double(group.count)});
  }
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
    const double error = double(predictions.predicted[at]) - double(predictions.measured[at]);
    if (!std::isfinite(error)) continue;
    ++result.samples;
    result.mean_absolute += std::abs(error);
    const auto& genes = sets.read(sample);
    result.all_pairs += genes.size() * (genes.size() - 1) / 2;
    result.has_too_many_pairs = result.all_pairs > most_pairs;
    if (result.has_too_many_pairs) of_pairs = {};
    for (size_t i = 0; i < genes.size(); ++i) {
      of_genes.push_back({genes[i], error});
      if (result.has_too_many_pairs) continue;
      for (size_t j = i + 1; j < genes.size(); ++j)
        of_pairs.push_back({uint64_t(genes[i]) << 32 | genes[j], error});
    }
  }
  if (result.samples > 0) result.mean_absolute /= double(result.samples);
  const Names& names = screen.graph().genes().names;
  result.genes = rank(sum_by_key(std::move(of_genes)), kLeastOfGene, shown,
                      [&](uint64_t key) { return names.shown(uint32_t(key)); });
  result.pairs = rank(sum_by_key(std::move(of_pairs)), kLeastOfPair, shown, [&](uint64_t key) {
    return names.shown(uint32_t(key >> 32)) + " + " + names.shown(uint32_t(key));
  });
  return result;
}

}  // namespace lacuna::report
