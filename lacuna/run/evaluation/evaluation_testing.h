// For tests only: something to evaluate, and evaluations compared.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/screen/testing.h"

namespace lacuna {

inline constexpr uint32_t kGenes = 40;
inline constexpr uint64_t kLabels[] = {1, 0};  // other than their order in the screen

inline std::vector<uint64_t> numbers_of(const Split& split, Part part) {
  const auto samples = samples_in(split, part);
  return {samples.begin(), samples.end()};
}

// A model that is the measurement and some noise, on both held-out parts.
inline EvaluationInput example(const Samples& samples, const Split& split, uint64_t seed) {
  Random random(seed, 7);
  EvaluationInput input = {.split = split.name,
                           .checkpoint = "best_pearson",
                           .labels = {"interaction", "fitness"},
                           .bootstrap = 60};
  for (Part part : {Part::validation, Part::test}) {
    PartPredictions predictions = {part, numbers_of(split, part), {}, {}, {}};
    predictions.measured = measured_labels(samples, kLabels, predictions.samples);
    for (float value : predictions.measured)
      predictions.predicted.push_back(std::isnan(value) ? 0 : value + float(random.normal()));
    input.parts.push_back(std::move(predictions));
  }
  return input;
}

struct Fixture {
  explicit Fixture(uint64_t seed, uint64_t count = 400)
      : samples(small_samples(seed, count, kGenes)),
        split(thirds_split(count)),
        input(example(samples, split, seed)) {}
  Samples samples;
  Split split;
  EvaluationInput input;
};

inline void expect_equal(double a, double b) {
  EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)));
}

inline void expect_equal(const Interval& a, const Interval& b) {
  expect_equal(a.low, b.low);
  expect_equal(a.high, b.high);
}

inline void expect_equal(const Scores& a, const Scores& b) {
  EXPECT_EQ(a.predictor, b.predictor);
  EXPECT_EQ(a.note, b.note);
  EXPECT_EQ(a.is_member, b.is_member);
  ASSERT_EQ(a.difference.has_value(), b.difference.has_value());
  if (a.difference)
    for (const auto& metric : kMetrics) {
      expect_equal(a.difference->value.*metric.value, b.difference->value.*metric.value);
      expect_equal(a.difference->interval.*metric.interval,
                   b.difference->interval.*metric.interval);
    }
  EXPECT_EQ(a.metrics.count, b.metrics.count);
  expect_equal(a.metrics.pearson, b.metrics.pearson);
  expect_equal(a.metrics.spearman, b.metrics.spearman);
  expect_equal(a.metrics.mse, b.metrics.mse);
  ASSERT_EQ(a.intervals.has_value(), b.intervals.has_value());
  if (!a.intervals) return;
  expect_equal(a.intervals->pearson, b.intervals->pearson);
  expect_equal(a.intervals->spearman, b.intervals->spearman);
  expect_equal(a.intervals->mse, b.intervals->mse);
}

inline void expect_equal(const Estimate& a, const Estimate& b) {
  expect_equal(a.value, b.value);
  expect_equal(a.low, b.low);
  expect_equal(a.high, b.high);
}

inline void expect_apart_equal(const LabelEvaluation& a, const LabelEvaluation& b) {
  ASSERT_EQ(a.groups.size(), b.groups.size());
  for (size_t g = 0; g < a.groups.size(); ++g) {
    EXPECT_EQ(a.groups[g].words(), b.groups[g].words());
    EXPECT_EQ(a.groups[g].units, b.groups[g].units);
    ASSERT_EQ(a.groups[g].scores.size(), b.groups[g].scores.size());
    for (size_t i = 0; i < a.groups[g].scores.size(); ++i)
      expect_equal(a.groups[g].scores[i], b.groups[g].scores[i]);
  }
  ASSERT_EQ(a.tails.size(), b.tails.size());
  for (size_t t = 0; t < a.tails.size(); ++t) {
    EXPECT_EQ(a.tails[t].tail, b.tails[t].tail);
    EXPECT_EQ(a.tails[t].count, b.tails[t].count);
    EXPECT_EQ(a.tails[t].samples, b.tails[t].samples);
    expect_equal(a.tails[t].threshold, b.tails[t].threshold);
    ASSERT_EQ(a.tails[t].scores.size(), b.tails[t].scores.size());
    for (size_t i = 0; i < a.tails[t].scores.size(); ++i) {
      const TailScore &x = a.tails[t].scores[i], &y = b.tails[t].scores[i];
      EXPECT_EQ(x.predictor, y.predictor);
      EXPECT_EQ(x.is_member, y.is_member);
      expect_equal(x.average_precision, y.average_precision);
      expect_equal(x.precision_at_k, y.precision_at_k);
      expect_equal(x.lead, y.lead);
    }
  }
}

inline void expect_equal(const Evaluation& a, const Evaluation& b) {
  EXPECT_EQ(a.split, b.split);
  EXPECT_EQ(a.checkpoint, b.checkpoint);
  EXPECT_EQ(a.bootstrap, b.bootstrap);
  EXPECT_EQ(a.notes, b.notes);
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (size_t p = 0; p < a.parts.size(); ++p) {
    EXPECT_EQ(a.parts[p].part, b.parts[p].part);
    EXPECT_EQ(a.parts[p].samples, b.parts[p].samples);
    EXPECT_EQ(a.parts[p].unit, b.parts[p].unit);
    EXPECT_EQ(a.parts[p].units, b.parts[p].units);
    EXPECT_EQ(a.parts[p].units_hash, b.parts[p].units_hash);
    EXPECT_EQ(a.parts[p].why, b.parts[p].why);
    ASSERT_EQ(a.parts[p].labels.size(), b.parts[p].labels.size());
    for (size_t l = 0; l < a.parts[p].labels.size(); ++l) {
      const LabelEvaluation &x = a.parts[p].labels[l], &y = b.parts[p].labels[l];
      EXPECT_EQ(x.label, y.label);
      ASSERT_EQ(x.scores.size(), y.scores.size());
      for (size_t i = 0; i < x.scores.size(); ++i) expect_equal(x.scores[i], y.scores[i]);
      expect_apart_equal(x, y);
    }
  }
}

}  // namespace lacuna
