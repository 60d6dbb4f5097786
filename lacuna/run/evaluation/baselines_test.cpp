#include "lacuna/run/evaluation/baselines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/testing.h"
#include "lacuna/screen/screen_batch.h"

namespace lacuna {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kScreenGenes = 18;

using GeneSet = std::set<uint32_t>;
using Pair = std::pair<uint32_t, uint32_t>;

struct LabelledScreen {
  Samples samples;
  Split split;
  std::vector<GeneSet> sets;  // [S]
  std::vector<float> labels;  // [S], of label 1
};

// Nought to three genes a sample, some of them twice; two labels, the second with effects of genes
// and of one pair, some of it missing; gene 17 is never removed in training.
LabelledScreen random_screen(uint64_t seed, uint64_t count = 300) {
  Random random(seed);
  LabelledScreen example;
  SampleBuilder builder(kScreenGenes, {"other", "label"});
  std::vector<uint8_t> parts;
  for (uint64_t s = 0; s < count; ++s) {
    const uint8_t part = uint8_t(s % 5 < 3 ? 0 : s % 5 - 2);
    std::vector<uint32_t> removed(random.below(4));
    for (auto& gene : removed) gene = uint32_t(random.below(kScreenGenes - (part == 0)));
    if (removed.size() == 3 && random.below(2)) removed = {5, 3, removed[2], removed[2]};
    const GeneSet set(removed.begin(), removed.end());
    double label = 1 + 0.3 * random.normal();
    for (uint32_t gene : set) label += 0.2 * gene - 1;
    if (set.contains(3) && set.contains(5)) label += 2;
    const float labels[] = {float(random.normal()), random.below(6) ? float(label) : kMissing};
    builder.add(removed, labels);
    example.sets.push_back(set);
    example.labels.push_back(labels[1]);
    parts.push_back(part);
  }
  example.samples = builder.finish();
  example.split = {"thirds", Array::from(std::move(parts)), {}};
  return example;
}

std::vector<uint64_t> all(const LabelledScreen& example) {
  std::vector<uint64_t> numbers(example.sets.size());
  for (uint64_t s = 0; s < numbers.size(); ++s) numbers[s] = s;
  return numbers;
}

std::vector<uint64_t> measured_in(const LabelledScreen& example, Part part) {
  std::vector<uint64_t> numbers;
  for (uint64_t s : all(example))
    if (example.split.parts.as<uint8_t>()[s] == uint8_t(part) && !std::isnan(example.labels[s]))
      numbers.push_back(s);
  return numbers;
}

std::vector<Pair> pairs_of(const GeneSet& set) {
  std::vector<Pair> pairs;
  for (uint32_t a : set)
    for (uint32_t b : set)
      if (a < b) pairs.emplace_back(a, b);
  return pairs;
}

// How many of the training samples remove each pair.
std::map<Pair, int> pair_counts(const LabelledScreen& example) {
  std::map<Pair, int> counts;
  for (uint64_t s : measured_in(example, Part::train))
    for (const Pair& pair : pairs_of(example.sets[s])) ++counts[pair];
  return counts;
}

// Predictions for all samples of a dense ridge on genes, and on recurring pairs where asked for.
// sample_weights: of the measured training samples, or empty: all 1.
std::vector<double> dense_predictions(const LabelledScreen& example, double strength,
                                      bool with_pairs,
                                      const std::vector<double>& sample_weights = {}) {
  std::map<Pair, uint32_t> columns;
  if (with_pairs)
    for (const auto& [pair, count] : pair_counts(example))
      if (count >= 2) columns.emplace(pair, kScreenGenes + uint32_t(columns.size()));
  const auto columns_of = [&](const GeneSet& set) {
    std::vector<uint32_t> found(set.begin(), set.end());
    for (const Pair& pair : pairs_of(set))
      if (columns.contains(pair)) found.push_back(columns.at(pair));
    return found;
  };
  Indicators x;
  x.columns = kScreenGenes + uint32_t(columns.size());
  std::vector<double> y, predictions;
  for (uint64_t s : measured_in(example, Part::train)) {
    for (uint32_t column : columns_of(example.sets[s])) x.column.push_back(column);
    x.ptr.push_back(x.column.size());
    y.push_back(example.labels[s]);
  }
  const std::vector<double> weights = dense_ridge(x, y, strength, sample_weights);
  for (const GeneSet& set : example.sets) {
    predictions.push_back(weights[0]);
    for (uint32_t column : columns_of(set)) predictions.back() += weights[column + 1];
  }
  return predictions;
}

double mse(const LabelledScreen& example, const std::vector<double>& predictions, Part part) {
  double squares = 0;
  const auto numbers = measured_in(example, part);
  for (uint64_t s : numbers) squares += std::pow(predictions[s] - example.labels[s], 2);
  return squares / double(numbers.size());
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t s = 0; s < found.size(); ++s) ASSERT_NEAR(found[s], expected[s], 1e-5) << s;
}

TEST(Baselines, AreTheFiveInOrder) {
  const LabelledScreen example = random_screen(1);
  std::vector<std::string> names;
  for (const auto& baseline : fit_baselines(example.samples, kScreenGenes, example.split, 1))
    names.push_back(baseline.name);
  EXPECT_EQ(names, (std::vector<std::string>{"mean", "gene", "pair", "ridge", "ridge_pairs"}));
}

TEST(Baselines, MeanIsThatOfMeasuredTrainingLabels) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  double sum = 0;
  const auto train = measured_in(example, Part::train);
  for (uint64_t s : train) sum += example.labels[s];
  const auto mean = fit_baselines(example.samples, kScreenGenes, example.split, 1)[0];
  expect_near(mean.predict(example.samples, all(example)),
              std::vector<double>(example.sets.size(), sum / double(train.size())));
}

TEST(Baselines, GeneIsTheDenseFitOfStrengthOne) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  const auto gene = fit_baselines(example.samples, kScreenGenes, example.split, 1)[1];
  expect_near(gene.predict(example.samples, all(example)), dense_predictions(example, 1, false));
}

TEST(Baselines, PairAddsTheShrunkenRestOfTheRecurringPair) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  const std::map<Pair, int> counts = pair_counts(example);
  const auto recurring = [&](const GeneSet& set) {
    Pair best;
    int most = 1;
    for (const Pair& pair : pairs_of(set))  // in ascending order
      if (counts.contains(pair) && counts.at(pair) > most) {
        most = counts.at(pair);
        best = pair;
      }
    return best;  // {0, 0}: none
  };
  std::vector<double> expected = dense_predictions(example, 1, false);
  std::map<Pair, std::pair<double, int>> left;
  for (uint64_t s : measured_in(example, Part::train)) {
    auto& [sum, count] = left[recurring(example.sets[s])];
    sum += example.labels[s] - expected[s];
    ++count;
  }
  left.erase(Pair());
  for (uint64_t s = 0; s < expected.size(); ++s) {
    const auto at = left.find(recurring(example.sets[s]));
    if (at != left.end()) expected[s] += at->second.first / (at->second.second + 1);
  }
  const auto pair = fit_baselines(example.samples, kScreenGenes, example.split, 1)[2];
  EXPECT_GT(left.size(), 3u);
  EXPECT_NE(pair.note.find(fmt::format("{} recurring pairs", left.size())), std::string::npos);
  expect_near(pair.predict(example.samples, all(example)), expected);
}

TEST(Baselines, RidgesAreDenseFitsOfTheStrengthThatIsBestOnValidation) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  const auto baselines = fit_baselines(example.samples, kScreenGenes, example.split, 1);
  for (bool with_pairs : {false, true}) {
    double best = std::numeric_limits<double>::infinity(), best_strength = 0;
    std::vector<double> expected;
    for (double strength : kRidgeStrengths) {
      const auto predictions = dense_predictions(example, strength, with_pairs);
      const double here = mse(example, predictions, Part::validation);
      if (here >= best) continue;
      best = here;
      best_strength = strength;
      expected = predictions;
    }
    const Baseline& ridge = baselines[with_pairs ? 4 : 3];
    EXPECT_EQ(ridge.note, fmt::format("strength {}, the best of 11 on validation", best_strength));
    expect_near(ridge.predict(example.samples, all(example)), expected);
  }
}

TEST(Baselines, WithoutValidationTheDefaultStrengthIsUsedAndSaid) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  LabelledScreen example = random_screen(seed);
  std::vector<uint8_t> parts(example.sets.size(), 0);
  example.split.parts = Array::from(std::move(parts));
  const auto baselines = fit_baselines(example.samples, kScreenGenes, example.split, 1);
  EXPECT_NE(baselines[3].note.find("the default"), std::string::npos);
  expect_near(baselines[3].predict(example.samples, all(example)),
              dense_predictions(example, kDefaultRidgeStrength, false));
}

// Weights of mean 1 over the training samples that have the label and a weight above 0.
std::vector<double> scaled_weights(const LabelledScreen& example, const Column& column) {
  std::vector<double> weights;
  double sum = 0;
  for (uint64_t s : measured_in(example, Part::train)) {
    weights.push_back(column.number(s));
    sum += weights.back();
  }
  const auto count = std::ranges::count_if(weights, [](double w) { return w > 0; });
  for (double& weight : weights) weight *= double(count) / sum;
  return weights;
}

TEST(Baselines, WeightsOfSamplesAreThoseOfTheDenseFit) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  LabelledScreen example = random_screen(seed);
  // All measured, so that a sample of weight 0 does not count for which pairs recur.
  std::vector<double> values;
  Random random(seed, 8);
  for (uint64_t s = 0; s < example.sets.size(); ++s) values.push_back(0.2 + 5 * random.uniform());
  const Column column = {"w", Array::from(values), {}};
  const auto fits =
      fit_baselines(example.samples, kScreenGenes, example.split, 1, {}, BaselineLimits(), &column);
  const std::vector<double> weights = scaled_weights(example, column);
  const auto train = measured_in(example, Part::train);
  double sum = 0;
  for (size_t i = 0; i < train.size(); ++i) sum += weights[i] * example.labels[train[i]];
  EXPECT_NEAR(fits[0].intercept, sum / double(train.size()), 1e-9);
  const auto gene = dense_predictions(example, 1, false, weights);
  expect_near(fits[1].predict(example.samples, all(example)), gene);
  // Offsets of recurring pairs, of {3, 5} for one, from what gene leaves, weighed.
  double left = 0, total = 0;
  const auto counts = pair_counts(example);
  for (size_t i = 0; i < train.size(); ++i) {
    const GeneSet& set = example.sets[train[i]];
    if (!set.contains(3) || !set.contains(5)) continue;
    const bool is_most = std::ranges::all_of(
        pairs_of(set), [&](const Pair& pair) { return counts.at(pair) <= counts.at(Pair(3, 5)); });
    ASSERT_TRUE(is_most);  // half of all triples have it
    left += weights[i] * (example.labels[train[i]] - gene[train[i]]);
    total += weights[i];
  }
  const auto& pairs = fits[2].pairs;
  const auto at = std::ranges::find_if(
      pairs, [](const PairEffect& pair) { return pair.first == 3 && pair.second == 5; });
  ASSERT_NE(at, pairs.end());
  EXPECT_NEAR(at->effect, left / (total + 1), 1e-6);
  for (bool with_pairs : {false, true}) {
    double best = std::numeric_limits<double>::infinity();
    std::vector<double> expected;
    for (double strength : kRidgeStrengths) {
      const auto predictions = dense_predictions(example, strength, with_pairs, weights);
      const double here = mse(example, predictions, Part::validation);  // unweighted
      if (here < best) expected = predictions;
      best = std::min(best, here);
    }
    expect_near(fits[with_pairs ? 4 : 3].predict(example.samples, all(example)), expected);
  }
}

TEST(Baselines, TheUnitOfWeightsMeansNothingAndWeightZeroIsNotFitted) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  const uint64_t count = example.sets.size();
  const auto fit = [&](const LabelledScreen& of, const Column* weights) {
    std::vector<std::vector<float>> predictions;
    for (const auto& one :
         fit_baselines(of.samples, kScreenGenes, of.split, 1, {}, BaselineLimits(), weights))
      predictions.push_back(one.predict(example.samples, all(example)));
    return predictions;
  };
  const auto expect_close = [&](const auto& a, const auto& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      for (uint64_t s = 0; s < count; ++s) EXPECT_NEAR(a[i][s], b[i][s], 2e-5);
  };
  const Column same = {"w", Array::from(std::vector<float>(count, 1e-4f)), {}};
  expect_close(fit(example, &same), fit(example, nullptr));
  // Weight 0 is not being there at all.
  std::vector<float> values(count, 3);
  std::vector<uint8_t> parts(example.split.parts.as<uint8_t>().begin(),
                             example.split.parts.as<uint8_t>().end());
  for (uint64_t s = 0; s < count; s += 4)
    if (parts[s] == 0) {
      values[s] = 0;
      parts[s] = uint8_t(Part::unused);
    }
  const Column some = {"w", Array::from(values), {}};
  LabelledScreen without = example;
  without.split.parts = Array::from(parts);
  expect_close(fit(example, &some), fit(without, nullptr));
}

TEST(Baselines, LabelsOutsideTrainingChangeNothingButTheStrength) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  LabelledScreen other = example;
  std::vector<float> labels(example.samples.labels.as<float>().begin(),
                            example.samples.labels.as<float>().end());
  for (uint64_t s : samples_in(example.split, Part::test)) labels[2 * s + 1] = float(s);
  other.samples.labels = Array::from(std::move(labels), {example.sets.size(), 2});
  const auto before = fit_baselines(example.samples, kScreenGenes, example.split, 1);
  const auto after = fit_baselines(other.samples, kScreenGenes, other.split, 1);
  for (size_t b = 0; b < before.size(); ++b)
    EXPECT_EQ(before[b].predict(example.samples, all(example)),
              after[b].predict(example.samples, all(example)));
}

TEST(Baselines, UnseenGenesHaveNoEffectAndTheWildTypeGetsTheIntercept) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  SampleBuilder builder(kScreenGenes, {"label"});
  const float none[] = {kMissing};
  for (const std::vector<uint32_t>& set :
       {std::vector<uint32_t>{}, {17}, {3, 5}, {17, 5, 3}, {5, 3, 3}})
    builder.add(set, none);
  const Samples asked = builder.finish();
  const std::vector<uint64_t> chosen = {0, 1, 2, 3, 4};
  for (const auto& baseline : fit_baselines(example.samples, kScreenGenes, example.split, 1)) {
    const auto predictions = baseline.predict(asked, chosen);
    EXPECT_FLOAT_EQ(predictions[0], float(baseline.intercept)) << baseline.name;
    EXPECT_EQ(predictions[1], predictions[0]) << baseline.name;
    EXPECT_EQ(predictions[3], predictions[2]) << baseline.name;
    EXPECT_EQ(predictions[4], predictions[2]) << baseline.name;
  }
}

TEST(Baselines, SayWhatIsWrong) {
  LabelledScreen example = random_screen(1);
  SampleBuilder builder(kScreenGenes + 1, {"label"});
  const float labels[] = {std::numeric_limits<float>::infinity()};
  builder.add(std::vector<uint32_t>{kScreenGenes}, labels);
  const Samples odd = builder.finish();
  const Split train = {"all", Array::from(std::vector<uint8_t>{0}), {}};
  const Split test = {"held-out", Array::from(std::vector<uint8_t>{2}), {}};
  EXPECT_ERROR(fit_baselines(odd, kScreenGenes + 1, train, 0),
               "label 'label' of sample 0 is infinite");
  EXPECT_ERROR(fit_baselines(odd, kScreenGenes + 1, test, 0),
               "no sample in the training part of split 'held-out' has label 'label'");
  const auto gene = fit_baselines(example.samples, kScreenGenes, example.split, 1)[1];
  EXPECT_ERROR(gene.predict(odd, std::vector<uint64_t>{0}), "gene index 18");
}

std::string names_of(const std::vector<Baseline>& baselines) {
  std::string names;
  for (const Baseline& baseline : baselines) names += baseline.name + " ";
  return names;
}

TEST(Baselines, TooManyPairsAreLeftOutAndSaid) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const LabelledScreen example = random_screen(seed);
  uint64_t pairs = 0, recurring = 0;
  for (const auto& [pair, count] : pair_counts(example)) {
    pairs += uint64_t(count);
    recurring += count > 1;
  }
  ASSERT_GT(recurring, 0u);
  std::vector<std::string> notes;
  const auto fit = [&](const BaselineLimits& limits) {
    notes.clear();
    return names_of(fit_baselines(
        example.samples, kScreenGenes, example.split, 1,
        [&](const std::string& words) { notes.push_back(words); }, limits));
  };
  EXPECT_EQ(fit({.pairs = pairs, .recurring = recurring}), "mean gene pair ridge ridge_pairs ");
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(fit({.pairs = pairs - 1}), "mean gene ridge ");
  EXPECT_EQ(notes,
            std::vector{fmt::format("left out for label 'label': pair and ridge_pairs, because "
                                    "the training samples have {} pairs of genes, and {} are "
                                    "the most that are looked at",
                                    pairs, pairs - 1)});
  EXPECT_EQ(fit({.recurring = recurring - 1}), "mean gene ridge ");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find(fmt::format("{} recurring pairs", recurring)), std::string::npos);
}

TEST(Baselines, ARidgeThatDoesNotSettleEndsNothing) {
  const LabelledScreen example = random_screen(1);  // where strengths settle one after another
  std::vector<std::string> notes;
  const auto fit = [&](int steps) {
    notes.clear();
    return fit_baselines(example.samples, kScreenGenes, example.split, 1,
                         [&](const std::string& words) { notes.push_back(words); },
                         {.ridge_steps = steps});
  };
  EXPECT_EQ(names_of(fit(1)), "mean ");
  EXPECT_EQ(notes.size(), 3u);  // gene and pair, ridge, ridge_pairs
  EXPECT_NE(notes[0].find("did not settle in 1 steps"), std::string::npos);
  // Strong ridges settle at once, weak ones take longer: some steps do for some strengths.
  for (int steps = 2;; ++steps) {
    ASSERT_LT(steps, 1000);
    const auto some = fit(steps);
    const auto ridge = std::find_if(some.begin(), some.end(),
                                    [](const Baseline& one) { return one.name == "ridge"; });
    if (ridge == some.end()) continue;
    EXPECT_NE(ridge->note.find("the others did not settle"), std::string::npos);
    break;
  }
}

}  // namespace
}  // namespace lacuna
