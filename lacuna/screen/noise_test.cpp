#include "lacuna/screen/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// Labels "y" (measured with noise of variance 1 in screen a and 4 in screen b, averaged over
// `count` measurements) and "z" (never measured), and the true values of y.
struct Measured {
  Samples samples;
  std::vector<float> truth;
};

void add_repeats(Samples& samples, float repeats, float sd) {
  const auto all = [&](float value) {
    return Array::from(std::vector<float>(samples.size(), value));
  };
  samples.columns.push_back({"y_repeats", all(repeats), {}});
  samples.columns.push_back({"y_repeat_sd", all(sd), {}});
}

Measured measured(Random& random, uint64_t count, int repeats) {
  Measured made;
  SampleBuilder builder(2, {"y", "z"});
  std::vector<uint32_t> screens;
  for (uint64_t s = 0; s < count; ++s) {
    screens.push_back(uint32_t(s % 2));
    const double truth = 2 * random.normal(), sd = s % 2 == 0 ? 1 : 2;
    double sum = 0;
    for (int i = 0; i < repeats; ++i) sum += truth + sd * random.normal();
    made.truth.push_back(float(truth));
    const float labels[] = {float(sum / repeats), NAN};
    builder.add({}, labels);
  }
  made.samples = builder.finish();
  made.samples.columns.push_back(make_category_column("screen", screens, {"a", "b"}));
  if (repeats > 1) add_repeats(made.samples, float(repeats), 1);
  return made;
}

const std::vector<LabelNoise> kNoise = {{"y", "screen", "a", 1, 20, 40},
                                        {"y", "screen", "b", 4, 30, 90}};

double pearson(std::span<const float> x, std::span<const float> y, uint64_t step) {
  double n = 0, sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = double(x[i]), b = double(y[i * step]);
    n += 1, sx += a, sy += b, xx += a * a, yy += b * b, xy += a * b;
  }
  return (n * xy - sx * sy) / std::sqrt((n * xx - sx * sx) * (n * yy - sy * sy));
}

// The truth itself scores what the ceiling says.
TEST(Noise, TheCeilingIsTheScoreOfTheTruth) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (const int repeats : {1, 4}) {
    const Measured made = measured(random, 20'000, repeats);
    std::vector<uint64_t> all(made.samples.size());
    std::iota(all.begin(), all.end(), 0);
    const auto ceiling = noise_ceiling(made.samples, kNoise, 0, all);
    ASSERT_TRUE(ceiling);
    EXPECT_NEAR(*ceiling, pearson(made.truth, made.samples.labels.as<float>(), 2), 0.02);
  }
}

TEST(Noise, CopiesAreOneMeasurement) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  Measured made = measured(random, 100, 1);
  const std::vector<uint64_t> some = {0, 1, 2, 3, 4, 5};
  const auto once = noise_ceiling(made.samples, kNoise, 0, some);
  add_repeats(made.samples, 5, 0);
  EXPECT_EQ(noise_ceiling(made.samples, kNoise, 0, some), once);
}

TEST(Noise, NothingIsSaidWhereNothingIsKnown) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const Measured made = measured(random, 100, 1);
  const std::vector<uint64_t> of_a = {0, 2, 4, 6}, of_both = {0, 1, 2}, one = {0};
  const std::vector<LabelNoise> only_a = {kNoise[0]};
  EXPECT_TRUE(noise_ceiling(made.samples, only_a, 0, of_a));
  EXPECT_FALSE(noise_ceiling(made.samples, only_a, 0, of_both));
  EXPECT_FALSE(noise_ceiling(made.samples, kNoise, 1, of_a));  // z has no noise, and no labels
  EXPECT_FALSE(noise_ceiling(made.samples, kNoise, 0, one));
  EXPECT_FALSE(noise_ceiling(made.samples, {}, 0, of_a));
  const std::vector<LabelNoise> large = {{"y", "", "", 1e6, 20, 40}};
  EXPECT_EQ(noise_ceiling(made.samples, large, 0, of_both), 0.0);
}

TEST(Noise, JoinedAndBackFromJson) {
  std::vector<LabelNoise> both = kNoise;
  both.push_back({"y", "screen", "a", 3, 10, 70});
  const auto joined = noise_from_json(to_json(joined_noise(both)));
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_DOUBLE_EQ(joined[0].variance, (1 * 20 + 3 * 60) / 80.0);
  EXPECT_EQ(joined[0].sets, 30u);
  EXPECT_EQ(joined[0].repeats, 110u);
  EXPECT_EQ(joined[1].category, "b");
  EXPECT_EQ(repeat_sd_column("a/b"), "a_b_repeat_sd");
}

}  // namespace
}  // namespace lacuna
