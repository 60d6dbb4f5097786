#include "lacuna/report/errors_by_gene.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna::report {
namespace {

// Samples of up to four of 12 genes, repeats included.
Samples random_samples(Random& random, uint64_t count) {
  SampleBuilder builder(12, {"label"});
  for (uint64_t s = 0; s < count; ++s) {
    std::vector<uint32_t> removed(random.below(5));
    for (auto& gene : removed) gene = uint32_t(random.below(12));
    builder.add(removed, std::vector<float>{float(random.normal())});
  }
  return builder.finish();
}

// What a group was predicted and measured, sample by sample.
struct Group {
  std::vector<double> predicted, measured;
};
double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / double(values.size());
}

// By plain loops: every group of `size` genes.
std::map<std::vector<uint32_t>, Group> by_loops(const Screen& screen,
                                                const PartPredictions& predictions, size_t size) {
  std::map<std::vector<uint32_t>, Group> groups;
  const RemovedReader reader(screen.samples());
  std::vector<uint32_t> removed;
  for (size_t row = 0; row < predictions.samples.size(); ++row) {
    const double error =
        double(predictions.predicted[row * 2 + 1]) - predictions.measured[row * 2 + 1];
    if (std::isnan(error)) continue;
    reader.read(predictions.samples[row], removed);
    const std::set<uint32_t> genes(removed.begin(), removed.end());
    for (const uint32_t a : genes)
      for (const uint32_t b : genes) {
        if (size == 1 ? a != b : a >= b) continue;
        Group& group = groups[size == 1 ? std::vector{a} : std::vector{a, b}];
        group.predicted.push_back(predictions.predicted[row * 2 + 1]);
        group.measured.push_back(predictions.measured[row * 2 + 1]);
      }
  }
  return groups;
}

TEST(ErrorsByGene, AgreesWithPlainLoops) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory folder;
  const HeteroGraph graph = small_graph(seed, 12);
  const Samples samples = random_samples(random, 300);
  const Screen screen =
      write_screen(folder / "screen",
                   {.graph = graph, .samples = samples, .splits = {}, .made_by = Json::object()});
  PartPredictions predictions = {Part::test, {}, {}, {}};
  for (uint64_t s = 0; s < 300; s += 2) {
    predictions.samples.push_back(s);
    for (int l = 0; l < 2; ++l) {
      predictions.predicted.push_back(float(random.normal()));
      predictions.measured.push_back(random.below(10) == 0 ? std::numeric_limits<float>::quiet_NaN()
                                                           : float(random.normal()));
    }
  }

  const ErrorsByGene errors = errors_by_gene(screen, predictions, 1, 1000);
  for (const auto& [size, found] :
       {std::pair<size_t, const GroupErrors*>{1, &errors.genes}, {2, &errors.pairs}}) {
    auto expected = by_loops(screen, predictions, size);
    const uint64_t all = expected.size();
    std::erase_if(expected,
                  [&](const auto& group) { return group.second.measured.size() < found->least; });
    EXPECT_EQ(found->least, size == 1 ? 5u : 3u);
    EXPECT_EQ(found->groups, expected.size());
    EXPECT_EQ(found->smaller, all - expected.size());
    ASSERT_EQ(found->worst.size(), expected.size());
    for (size_t i = 0; i < found->worst.size(); ++i) {
      const GroupError& group = found->worst[i];
      ASSERT_TRUE(expected.contains(group.genes));
      const auto& [predicted, measured] = expected[group.genes];
      ASSERT_EQ(group.count, measured.size());
      std::vector<double> absolute, squared, away;
      for (size_t k = 0; k < measured.size(); ++k) {
        absolute.push_back(std::abs(predicted[k] - measured[k]));
        squared.push_back(absolute.back() * absolute.back());
        away.push_back(std::pow(measured[k] - mean_of(measured), 2));
      }
      EXPECT_NEAR(group.mean_absolute, mean_of(absolute), 1e-9);
      EXPECT_NEAR(group.measured, mean_of(measured), 1e-9);
      EXPECT_NEAR(group.predicted, mean_of(predicted), 1e-9);
      EXPECT_NEAR(group.mean, mean_of(predicted) - mean_of(measured), 1e-9);
      EXPECT_NEAR(group.spread, std::sqrt(mean_of(away)), 1e-6);
      EXPECT_NEAR(group.relative, std::sqrt(mean_of(squared) / mean_of(away)), 1e-6);
      const auto ranked = [&](const GroupError& of) {
        return size == 1 ? of.relative : of.mean_absolute;
      };
      EXPECT_EQ(found->all[i], ranked(group));
      EXPECT_TRUE(i == 0 || ranked(group) <= ranked(found->worst[i - 1]));
    }
  }
  EXPECT_EQ(errors_by_gene(screen, predictions, 1, 2).genes.worst.size(), 2u);

  uint64_t pairs = 0;
  for (const auto& [genes, group] : by_loops(screen, predictions, 2))
    pairs += group.measured.size();
  EXPECT_EQ(errors.all_pairs, pairs);
  EXPECT_FALSE(errors_by_gene(screen, predictions, 1, 1000, pairs).has_too_many_pairs);
  const ErrorsByGene without = errors_by_gene(screen, predictions, 1, 1000, pairs - 1);
  EXPECT_TRUE(without.has_too_many_pairs && without.pairs.worst.empty());
  EXPECT_EQ(without.genes.groups, errors.genes.groups);
  EXPECT_EQ(without.mean_absolute, errors.mean_absolute);

  predictions.samples[3] = 300;
  EXPECT_ERROR(errors_by_gene(screen, predictions, 1), "hold sample 300");
}

TEST(ErrorsByGene, RanksSmallGroupsWhereThereAreNoOthers) {
  const TemporaryDirectory folder;
  const HeteroGraph graph = small_graph(1, 12);
  SampleBuilder builder(12, {"label"});
  builder.add(std::vector<uint32_t>{0, 1}, std::vector<float>{0});
  const Screen screen = write_screen(
      folder / "screen",
      {.graph = graph, .samples = builder.finish(), .splits = {}, .made_by = Json::object()});
  const PartPredictions predictions = {Part::test, {0}, {2}, {3}};
  const ErrorsByGene errors = errors_by_gene(screen, predictions, 0);
  EXPECT_EQ(errors.genes.least, 1u);
  ASSERT_EQ(errors.pairs.worst.size(), 1u);
  EXPECT_EQ(errors.pairs.worst[0].genes, (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(std::isnan(errors.genes.worst.at(0).relative));  // one measurement has no spread
  EXPECT_EQ(errors.pairs.worst[0].mean, -1);
}

}  // namespace
}  // namespace lacuna::report
