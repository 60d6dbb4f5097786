#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/apart/groups.h"
#include "lacuna/run/evaluation/apart/ranking.h"
#include "lacuna/run/evaluation/apart/tails.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

// Precision after every sample of the tail, walking down the ranking of values without ties.
double plain_average_precision(std::vector<float> predicted, const std::vector<bool>& is_tail) {
  std::vector<size_t> order(predicted.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return predicted[a] > predicted[b]; });
  double found = 0, sum = 0;
  for (size_t i = 0; i < order.size(); ++i)
    if (is_tail[order[i]]) sum += ++found / double(i + 1);
  return sum / found;
}

TEST(Tails, AreThoseOfAPlainWalkDownTheRanking) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<float> measured, good, chance;
  for (size_t s = 0; s < 2000; ++s) {
    measured.push_back(float(random.normal()));
    good.push_back(measured.back() + 0.5f * float(random.normal()));
    chance.push_back(float(random.normal()));
  }
  const auto tails = tail_scores({"model", "chance"}, {good, chance}, measured,
                                 each_sample(measured.size()), 1, 200);
  ASSERT_EQ(tails.size(), 2u);
  for (const TailScores& tail : tails) {
    const float sign = tail.tail == "lowest" ? -1.f : 1.f;
    std::vector<float> strength, sorted = measured;
    std::sort(sorted.begin(), sorted.end(), [&](float a, float b) { return sign * a > sign * b; });
    std::vector<bool> is_tail;
    size_t hits = 0;
    for (const float value : measured) is_tail.push_back(sign * value >= sign * sorted[99]);
    for (const float value : good) strength.push_back(sign * value);
    EXPECT_EQ(tail.count, 100u);
    EXPECT_EQ(float(tail.threshold), sorted[99]);
    const TailScore& model = tail.scores[0];
    EXPECT_NEAR(model.average_precision.value, plain_average_precision(strength, is_tail), 1e-12);
    std::vector<float> best = strength;
    std::nth_element(best.begin(), best.begin() + 99, best.end(), std::greater<>());
    for (size_t s = 0; s < strength.size(); ++s) hits += is_tail[s] && strength[s] >= best[99];
    EXPECT_NEAR(model.precision_at_k.value, double(hits) / 100, 1e-12);
    EXPECT_LT(model.average_precision.low, model.average_precision.value);
    EXPECT_GT(model.average_precision.high, model.average_precision.value);
    EXPECT_EQ(tail.scores[1].standing(), Standing::ahead);
    EXPECT_GT(tail.scores[1].lead.low, 0);
  }
}

TEST(Tails, PredictionsWithoutSpreadAreChance) {
  std::vector<float> measured(100), same(100, 3.f);
  std::iota(measured.begin(), measured.end(), 0.f);
  const auto tails = tail_scores({"model"}, {same}, measured, each_sample(100), 1, 0);
  ASSERT_EQ(tails.size(), 2u);
  for (const TailScores& tail : tails) {
    EXPECT_NEAR(tail.scores[0].average_precision.value, 0.05, 1e-12);
    EXPECT_NEAR(tail.scores[0].precision_at_k.value, 0.05, 1e-12);
    EXPECT_TRUE(std::isnan(tail.scores[0].average_precision.low));
  }
  EXPECT_TRUE(tail_scores({"model"}, {same}, same, each_sample(100), 1, 0).empty());
  measured.resize(19), same.resize(19);
  EXPECT_TRUE(tail_scores({"model"}, {same}, measured, each_sample(19), 1, 0).empty());
}

// 4% are 1, the others 0: whoever ties with the last of the highest 5% is everybody.
TEST(Tails, ATailOfAllSamplesIsNotScored) {
  std::vector<float> measured(100, 0.f), predicted(100);
  std::fill(measured.begin(), measured.begin() + 4, 1.f);
  std::iota(predicted.begin(), predicted.end(), 0.f);
  const auto tails = tail_scores({"model"}, {predicted}, measured, each_sample(100), 1, 10);
  ASSERT_EQ(tails.size(), 2u);
  EXPECT_EQ(tails[1].count, 100u);
  EXPECT_TRUE(std::isnan(tails[1].scores[0].average_precision.value));
  EXPECT_TRUE(std::isnan(tails[1].scores[0].precision_at_k.value));
}

TEST(Ranking, WeightsCountLikeCopies) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<double> strength, weights, copies;
  std::vector<bool> is_tail, is_tail_copy;
  for (size_t s = 0; s < 200; ++s) {
    strength.push_back(std::round(3 * random.normal()));  // with ties
    weights.push_back(double(random.below(4)));
    is_tail.push_back(random.below(5) == 0);
    for (int copy = 0; copy < int(weights.back()); ++copy) {
      copies.push_back(strength.back());
      is_tail_copy.push_back(is_tail.back());
    }
  }
  const std::vector<double> once(copies.size(), 1.0);
  const Ranking ranking(strength), copied(copies);
  const Found found = ranking.found(is_tail, weights), plain = copied.found(is_tail_copy, once);
  EXPECT_NEAR(found.auroc, plain.auroc, 1e-12);
  EXPECT_NEAR(found.average_precision, plain.average_precision, 1e-12);
  EXPECT_EQ(found.tail, double(std::count(is_tail_copy.begin(), is_tail_copy.end(), true)));
  for (const double k : {1.0, 10.0, double(copies.size())})
    EXPECT_NEAR(ranking.precision_at(k, is_tail, weights),
                copied.precision_at(k, is_tail_copy, once), 1e-12);
  EXPECT_TRUE(std::isnan(ranking.precision_at(double(copies.size()) + 1, is_tail, weights)));
}

TEST(Groups, CountTheGenesThatTrainingNeverRemoves) {
  HeteroGraph graph;
  graph.add_nodes("gene", numbered_names("G", 60));
  std::vector<uint32_t> edges;  // gene 3 is linked to 12 others (one of them twice), 4 to itself
  for (const bool is_target : {false, true}) {
    for (uint32_t other = 20; other < 32; ++other) edges.push_back(is_target ? other : 3);
    edges.push_back(is_target ? 3 : 20);
    edges.push_back(4);
  }
  const uint64_t count = edges.size() / 2;
  graph.add_edges("gene", "physical", "gene", Array::from(std::move(edges), {2, count}));
  SampleBuilder builder(60, {"label"});
  const std::vector<std::vector<uint32_t>> sets = {{0, 1}, {0, 3}, {3, 4}, {3}, {0, 3, 4}, {}, {1}};
  for (const auto& set : sets) builder.add(set, std::vector<float>{1.f});
  const Samples samples = builder.finish();
  const Split split = {"s", Array::from(std::vector<uint8_t>{0, 2, 2, 2, 2, 2, 2}), Json::object()};
  const std::vector<bool> is_seen = seen_genes(samples, 60, split);
  EXPECT_EQ(std::count(is_seen.begin(), is_seen.end(), true), 2);
  const std::vector<uint64_t> chosen = {1, 2, 3, 4, 5, 6};
  const auto groupings = group_samples(samples, graph, is_seen, chosen);
  ASSERT_EQ(groupings.size(), 2u);
  const auto names = [](const SampleGrouping& grouping) {
    std::vector<std::string> names;
    for (const uint8_t group : grouping.group)
      names.push_back(group == SampleGrouping::kNone ? "-" : grouping.names.at(group));
    return names;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(names(groupings[0]), (Words{"one", "all", "all", "several", "none", "none"}));
  EXPECT_EQ(names(groupings[1]), (Words{"10 to 29", "0", "10 to 29", "0", "-", "-"}));
  EXPECT_TRUE(group_samples(samples, graph, is_seen, std::vector<uint64_t>{5, 6}).empty());
}

TEST(Groups, AreScoredAsIfTheyWereAlone) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  EvaluationInput input = {
      .split = "s", .checkpoint = "last", .labels = {"label"}, .bootstrap = 50};
  PartPredictions part = {.part = Part::test, .samples = {}, .predicted = {}, .measured = {}};
  SampleGrouping grouping = {"unseen genes", {"none", "one", "several", "all"}, {}};
  std::vector<float> predicted, measured;  // of group "one"
  for (uint64_t s = 0; s < 90; ++s) {
    part.samples.push_back(s);
    part.measured.push_back(s % 7 ? float(random.normal())
                                  : std::numeric_limits<float>::quiet_NaN());
    part.predicted.push_back(float(random.normal()));
    grouping.group.push_back(uint8_t(s % 2 ? 1 : 3));
    if (s % 2 == 0) continue;
    predicted.push_back(part.predicted.back());
    measured.push_back(part.measured.back());
  }
  part.groupings = {grouping};
  part.baselines.push_back({.name = "mean", .predicted = std::vector<float>(90, 0.f)});
  input.parts = {part};
  const Evaluation evaluation = evaluate(input);
  const LabelEvaluation& label = evaluation.parts[0].labels[0];
  ASSERT_EQ(label.groups.size(), 2u);
  EXPECT_EQ(label.groups[0].words(), "one gene unseen");
  EXPECT_EQ(label.groups[1].words(), "all genes unseen");
  EXPECT_EQ((GroupScores{"unseen genes", "none"}.words()), "no gene unseen");
  const Metrics alone = compute_metrics(predicted, measured);
  EXPECT_EQ(label.groups[0].model().metrics.count, alone.count);
  EXPECT_EQ(label.groups[0].model().metrics.pearson, alone.pearson);
  EXPECT_EQ(label.groups[0].units, alone.count);
  ASSERT_EQ(label.groups[0].baselines().size(), 1u);
  EXPECT_TRUE(label.groups[0].baselines()[0].difference);
  EXPECT_EQ(label.tails.size(), 2u);
  EXPECT_EQ(label.tails[0].scores.size(), 2u);
}

}  // namespace
}  // namespace lacuna
