#include "lacuna/report/scores/group_scores.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna::report {
namespace {

TEST(GroupScores, AgreeWithPlainLoops) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory folder;
  constexpr uint64_t kSamples = 200;
  SampleBuilder builder(12, {"label"});
  std::vector<uint32_t> codes;
  std::vector<uint8_t> parts;
  for (uint64_t s = 0; s < kSamples; ++s) {
    const bool is_test = s % 2 == 0;
    std::vector<uint32_t> removed(1 + random.below(3));
    for (auto& gene : removed) gene = uint32_t(random.below(is_test ? 12 : 6));
    builder.add(removed, std::vector<float>{float(random.normal())});
    codes.push_back(uint32_t(random.below(3)));  // 2: unknown
    parts.push_back(uint8_t(is_test ? Part::test : Part::train));
  }
  Samples samples = builder.finish();
  samples.columns.push_back(make_category_column("screen", codes, {"a", "b"}));
  const HeteroGraph graph = small_graph(seed, 12);
  const Split split = {"half", Array::from(std::vector<uint8_t>(parts)), Json::object()};
  const Screen screen = write_screen(
      folder / "screen",
      {.graph = graph, .samples = samples, .splits = {split}, .made_by = Json::object()});

  PartPredictions predictions = {Part::test, {}, {}, {}};
  std::map<std::string, std::map<std::string, std::pair<std::vector<float>, std::vector<float>>>>
      expected;  // by grouping and group: predicted, measured
  std::set<uint32_t> seen;
  std::vector<uint32_t> removed;
  const RemovedReader reader(samples);
  for (uint64_t s = 1; s < kSamples; s += 2) {
    reader.read(s, removed);
    seen.insert(removed.begin(), removed.end());
  }
  for (uint64_t s = 0; s < kSamples; s += 2) {
    predictions.samples.push_back(s);
    predictions.predicted.push_back(float(random.normal()));
    predictions.measured.push_back(s % 14 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                               : float(random.normal()));
    reader.read(s, removed);
    const std::set<uint32_t> genes(removed.begin(), removed.end());
    uint64_t unseen = 0;
    for (const uint32_t gene : genes) unseen += !seen.contains(gene);
    const std::string names[] = {
        genes.size() == 1 ? "1 gene" : std::to_string(genes.size()) + " genes",
        unseen == genes.size() ? "all unseen"
        : unseen == 0          ? "none unseen"
                               : std::to_string(unseen) + " unseen",
        codes[s] == 2 ? "unknown" : std::string(1, char('a' + codes[s]))};
    const char* titles[] = {"by number of removed genes", "by genes that training never removed",
                            "by category of 'screen'"};
    for (int i = 0; i < 3; ++i) {
      auto& [predicted, measured] = expected[titles[i]][names[i]];
      predicted.push_back(predictions.predicted.back());
      measured.push_back(predictions.measured.back());
    }
  }

  const auto groupings = group_scores(screen, predictions, 0, &split);
  ASSERT_EQ(groupings.size(), 3u);
  for (const Grouping& grouping : groupings) {
    ASSERT_EQ(grouping.groups.size(), expected[grouping.title].size()) << grouping.title;
    for (const auto& [name, metrics] : grouping.groups) {
      const auto& [predicted, measured] = expected[grouping.title][name];
      const Metrics right = compute_metrics(predicted, measured);
      EXPECT_EQ(metrics.count, right.count) << name;
      EXPECT_DOUBLE_EQ(metrics.mse, right.mse) << name;
    }
  }
  EXPECT_EQ(groupings[1].groups.back().name, "all unseen");
  EXPECT_EQ(group_scores(screen, predictions, 0, nullptr).size(), 2u);
  predictions.samples[3] = kSamples;
  EXPECT_ERROR(group_scores(screen, predictions, 0, nullptr), "hold sample 200");
}

}  // namespace
}  // namespace lacuna::report
