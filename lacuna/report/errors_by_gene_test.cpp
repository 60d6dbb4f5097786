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

// By plain loops: mean |error| and count of every group of `size` genes.
std::map<std::string, std::pair<uint64_t, double>> by_loops(const Screen& screen,
                                                            const PartPredictions& predictions,
                                                            size_t size) {
  std::map<std::string, std::pair<uint64_t, double>> groups;
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
        const auto& names = screen.graph().genes().names;
        auto& [count, sum] = groups[size == 1 ? names[a] : names[a] + " + " + names[b]];
        ++count;
        sum += std::abs(error);
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
    std::erase_if(expected, [&](const auto& group) { return group.second.first < found->least; });
    EXPECT_EQ(found->least, size == 1 ? 5u : 3u);
    EXPECT_EQ(found->groups, expected.size());
    EXPECT_EQ(found->smaller, all - expected.size());
    ASSERT_EQ(found->worst.size(), expected.size());
    for (size_t i = 0; i < found->worst.size(); ++i) {
      const GroupError& group = found->worst[i];
      ASSERT_TRUE(expected.contains(group.name)) << group.name;
      EXPECT_EQ(group.count, expected[group.name].first);
      EXPECT_NEAR(group.mean_absolute, expected[group.name].second / double(group.count), 1e-9);
      EXPECT_LE(std::abs(group.mean), group.mean_absolute + 1e-12);
      EXPECT_TRUE(i == 0 || group.mean_absolute <= found->worst[i - 1].mean_absolute);
    }
  }
  EXPECT_EQ(errors_by_gene(screen, predictions, 1, 2).genes.worst.size(), 2u);

  uint64_t pairs = 0;
  for (const auto& [name, group] : by_loops(screen, predictions, 2)) pairs += group.first;
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
  EXPECT_EQ(errors.pairs.worst[0].name, "G0 + G1");
  EXPECT_EQ(errors.pairs.worst[0].mean, -1);
}

}  // namespace
}  // namespace lacuna::report
