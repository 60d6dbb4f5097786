#include "lacuna/recording/generate_recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/generate_image.h"
#include "lacuna/recording/windows.h"

namespace lacuna {
namespace {

TEST(GenerateRecording, IsAPureFunctionOfItsOptions) {
  const TemporaryDirectory folder;
  const GenerateRecordingOptions options = {.sessions = 2, .minutes = 0.2, .seed = 7, .units = 5};
  const Recording first = generate_recording(folder / "a", options, "test");
  EXPECT_EQ(first.fingerprint().value(),
            generate_recording(folder / "b", options, "test").fingerprint().value());
  // Session by session the same, and another seed is another recording.
  GenerateRecordingOptions part = options;
  part.sessions = 1;
  generate_recording(folder / "c", part, "test");
  part.first_session = 1;
  part.add = true;
  EXPECT_EQ(first.fingerprint().value(),
            generate_recording(folder / "c", part, "test").fingerprint().value());
  GenerateRecordingOptions other = options;
  other.seed = 8;
  EXPECT_EQ(first.fingerprint()
                .differing_parts(generate_recording(folder / "d", other, "t").fingerprint())
                .size(),
            2u);
}

TEST(GenerateRecording, HasTrialsRepeatsBlinksAndUnits) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = generate_recording(
      folder / "r", {.sessions = 2, .minutes = 1, .seed = seed, .side = 20}, "t");
  std::set<uint64_t> unit_counts;
  for (const Session& session : recording.sessions()) {
    EXPECT_GE(session.units.size(), 23u);
    EXPECT_LE(session.units.size(), 181u);
    EXPECT_EQ(session.frames(), 7200u);
    const Segment& images = session.segment("images");
    const auto trials = read_whole_numbers(images.field("trial"));
    const auto stimuli = read_whole_numbers(images.field("stimulus"));
    std::map<int64_t, std::vector<uint64_t>> starts;  // of each stimulus
    for (uint64_t t = 1; t < trials.size(); ++t)
      if (trials[t] >= 0 && trials[t] != trials[t - 1]) starts[stimuli[t]].push_back(t);
    uint64_t repeats = 0;
    const Array frames = images.field("stim").map();
    for (const auto& [stimulus, at] : starts)
      for (size_t k = 1; k < at.size(); ++k, ++repeats)
        EXPECT_EQ(hash64(frames.bytes().subspan(at[0] * 400, 180 * 400)),
                  hash64(frames.bytes().subspan(at[k] * 400, 180 * 400)));
    EXPECT_GT(repeats, 1u);
    EXPECT_GT(images.field("behavior").nan_rows, 0u);
    const auto tracked = read_numbers(images.field("tracked"));
    EXPECT_EQ(uint64_t(std::count(tracked.begin(), tracked.end(), 0.0)),
              images.field("behavior").nan_rows);
  }
  EXPECT_EQ(recording.sessions()[1].segments.size(), 2u);
  EXPECT_GT(Windows(recording, {}).size(), 3000u);
}

TEST(GenerateRecording, SpikesFollowTheTrueFields) {
  const TemporaryDirectory folder;
  const Recording recording = generate_recording(
      folder / "r", {.sessions = 2, .minutes = 4, .seed = 3, .side = 21, .units = 6}, "test");
  const Session& session = recording.sessions()[1];
  const Segment& segment = session.segment("flicker");
  const Array spatial = *recording.truth(session.name, "spatial");
  const Array temporal = *recording.truth(session.name, "temporal");
  const Array stim = read_checked(segment.field("stim")),
              robs = read_checked(segment.field("robs"));
  const uint64_t pixels = 21 * 21;
  ASSERT_EQ(spatial.shape(), (Shape{6, 21, 21}));
  for (uint64_t u = 0; u < 6; ++u) {
    std::vector<double> seen(segment.frames, 0);  // by the spatial field
    for (uint64_t t = 0; t < segment.frames; ++t)
      for (uint64_t p = 0; p < pixels; ++p)
        seen[t] += double(spatial.as<float>()[u * pixels + p]) *
                   (double(stim.as<uint8_t>()[t * pixels + p]) - 127) / 255;
    // Correlation of the count with the response of the true field, over rows.
    double xy = 0, xx = 0, yy = 0, x_sum = 0, y_sum = 0, n = 0;
    for (uint64_t t = 20; t < segment.frames; ++t) {
      double response = 0;
      for (uint64_t l = 0; l < 12; ++l)
        response += double(temporal.as<float>()[u * 12 + l]) * seen[t - l];
      const double count = robs.as<uint8_t>()[t * 6 + u];
      xy += response * count, xx += response * response, yy += count * count;
      x_sum += response, y_sum += count, n += 1;
    }
    const double correlation =
        (xy - x_sum * y_sum / n) / std::sqrt((xx - x_sum * x_sum / n) * (yy - y_sum * y_sum / n));
    EXPECT_GT(correlation, 0.1) << u;
    EXPECT_GT(y_sum, 100) << u;
  }
}

TEST(GenerateImage, AmplitudesFallWithFrequency) {
  const auto image = one_over_f_image(128, 5, 0);
  // Mean squared difference of pixels d apart grows slowly with d (by log d), unlike white noise.
  const auto difference = [&](uint64_t d) {
    double sum = 0;
    for (uint64_t y = 0; y < 128; ++y)
      for (uint64_t x = 0; x < 128; ++x) {
        const double step = double(image[y * 128 + x]) - double(image[y * 128 + (x + d) % 128]);
        sum += step * step;
      }
    return sum / (128 * 128);
  };
  EXPECT_LT(difference(1), 0.35 * difference(16));
  EXPECT_GT(difference(16), 1000);
}

}  // namespace
}  // namespace lacuna
