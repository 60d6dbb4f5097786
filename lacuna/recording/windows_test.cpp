#include "lacuna/recording/windows.h"

#include <gtest/gtest.h>

#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/testing.h"
#include "lacuna/recording/window_fields.h"

namespace lacuna {
namespace {

// Everything of one segment, as plain numbers.
struct PlainSegment {
  std::vector<double> trial, time, valid;
  std::vector<float> behaviour, robs, dfs;
  uint64_t frames, units;

  PlainSegment(const Session& session, const Segment& segment)
      : trial(read_numbers(segment.field("trial"))),
        time(read_numbers(segment.field("time"))),
        valid(read_numbers(segment.field("valid"))),
        behaviour(plain(segment.field("behavior"))),
        robs(plain(segment.field("robs"))),
        dfs(plain(segment.field("dfs"))),
        frames(segment.frames),
        units(session.units.size()) {}
  static std::vector<float> plain(const Field& field) {
    std::vector<float> values(field.rows() * field.columns());
    const Array rows = field.map();
    for (uint64_t t = 0; t < field.rows(); ++t)
      read_row(field, rows.bytes().data() + t * field.row_bytes(),
               values.data() + t * field.columns());
    return values;
  }
  bool is_one_step(uint64_t t) const {  // from t - 1
    const double step = time[t] - time[t - 1];
    return trial[t] == trial[t - 1] && step > 0 && step <= 1.5 / 120;
  }
  bool has_behaviour(uint64_t t) const {
    for (uint64_t k = 0; k < kToyBehaviour; ++k)
      if (!std::isfinite(behaviour[t * kToyBehaviour + k])) return false;
    return true;
  }
  // By brute force, for one bin a row: behaviour at lags 0 and 1, spikes at lags 1 to 3.
  bool is_window(int64_t t, int64_t lags, int64_t targets) const {
    const int64_t oldest = std::max<int64_t>(lags - 1, 3);
    if (t - oldest < 0 || t + targets > int64_t(frames)) return false;
    for (int64_t r = t - oldest; r < t + targets; ++r)
      if (trial[size_t(r)] < 0 || (r > t - oldest && !is_one_step(size_t(r)))) return false;
    for (int64_t r = t - oldest; r < t + targets; ++r)
      if (valid[size_t(r)] == 0) return false;
    return has_behaviour(size_t(t)) && has_behaviour(size_t(t - 1));
  }
};

WindowSettings toy_settings(uint64_t lags, uint64_t targets) {
  return {.stimulus = {.field = "stim", .lags = lags},
          .inputs = {{.field = "behavior", .lags = 2}, {.field = "robs", .lags = 3, .first = 1}},
          .target_rows = targets};
}

TEST(Windows, AreThoseOfABruteForceSearch) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", seed);
  for (const auto& [lags, targets] : {std::pair<uint64_t, uint64_t>{1, 1}, {7, 1}, {4, 5}}) {
    const Windows windows(recording, toy_settings(lags, targets));
    uint64_t i = 0;
    for (uint32_t s = 0; s < recording.sessions().size(); ++s) {
      const Session& session = recording.sessions()[s];
      EXPECT_EQ(windows.of_session(s).first, i);
      for (uint32_t g = 0; g < session.segments.size(); ++g) {
        const PlainSegment plain(session, session.segments[g]);
        for (uint64_t t = 0; t < plain.frames; ++t) {
          if (!plain.is_window(int64_t(t), int64_t(lags), int64_t(targets))) continue;
          ASSERT_LT(i, windows.size());
          const Window window = windows.at(i++);
          ASSERT_EQ(std::tuple(window.session, window.segment, window.t), std::tuple(s, g, t));
        }
      }
      EXPECT_EQ(windows.of_session(s).second, i);
    }
    EXPECT_EQ(windows.size(), i);
    EXPECT_GT(i, 100u);
  }
}

TEST(WindowFields, ServeTheRowsOfTheirWindows) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", seed);
  WindowSettings settings = toy_settings(4, 2);
  settings.units = {"u1", "s2/u3", "s1/u0"};
  const Windows windows(recording, settings);
  EXPECT_EQ(windows.units_of(1).size(), 2u);
  const WindowFields fields(windows);
  uint64_t bytes = 0;
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments)
      bytes += segment.field("robs").bytes() * 2 + segment.field("dfs").bytes() +
               segment.field("behavior").bytes();
  EXPECT_EQ(fields.bytes(), bytes);
  Random random(seed, 1);
  WindowBatch batch;
  for (int round = 0; round < 3; ++round) {
    batch.windows.resize(20 + random.below(30));
    for (auto& window : batch.windows) window = random.below(windows.size());
    order_by_session(windows, batch.windows);
    fields.fill(batch);
    ASSERT_EQ(batch.ptr.back(), int32_t(batch.size()));
    for (size_t p = 0; p < batch.parts.size(); ++p) {
      const SessionPart& part = batch.parts[p];
      const Session& session = recording.sessions()[part.session];
      const auto units = windows.units_of(part.session);
      for (uint64_t b = 0; b < part.windows; ++b) {
        const Window w = windows.at(batch.windows[size_t(batch.ptr[p]) + b]);
        ASSERT_EQ(w.session, part.session);
        const PlainSegment plain(session, session.segments[w.segment]);
        for (uint64_t r = 0; r < 2; ++r)
          for (uint64_t u = 0; u < units.size(); ++u) {
            const uint64_t from = (w.t + r) * plain.units + units[u],
                           to = (b * 2 + r) * units.size() + u;
            EXPECT_EQ(part.counts[to], plain.robs[from]);
            EXPECT_EQ(part.validity[to], plain.dfs[from]);
          }
        for (uint64_t lag = 0; lag < 2; ++lag)
          for (uint64_t k = 0; k < kToyBehaviour; ++k)
            EXPECT_EQ(part.inputs[0][(b * 2 + lag) * kToyBehaviour + k],
                      plain.behaviour[(w.t - lag) * kToyBehaviour + k]);
        for (uint64_t lag = 0; lag < 3; ++lag)
          for (uint64_t u = 0; u < plain.units; ++u)
            EXPECT_EQ(part.inputs[1][(b * 3 + lag) * plain.units + u],
                      plain.robs[(w.t - 1 - lag) * plain.units + u]);
      }
    }
  }
}

TEST(WindowFields, DownSampledCountsAreSummedAndBehaviourIsAveraged) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", seed, {.sessions = 1});
  WindowSettings settings = {
      .stimulus = {.field = "stim", .lags = 3},
      .inputs = {{.field = "behavior", .lags = 2}, {.field = "robs", .lags = 1}},  // counts, too
      .step = 3};
  const Windows windows(recording, settings);
  const PlainSegment plain(recording.sessions()[0], recording.sessions()[0].segments[0]);
  // Groups of three from the first row of each stretch on.
  std::vector<uint64_t> expected;
  uint64_t start = 0;
  for (uint64_t t = 0; t < plain.frames; ++t) {
    if (plain.trial[t] < 0) continue;
    if (t == 0 || plain.trial[t - 1] < 0 || !plain.is_one_step(t)) start = t;
    uint64_t end = t + 1;  // of the stretch
    while (end < plain.frames && plain.trial[end] >= 0 && plain.is_one_step(end)) ++end;
    if ((t - start) % 3 != 0 || t < start + 6 || t + 3 > end) continue;
    bool is_ok = true;
    for (uint64_t r = t; r < t + 3; ++r) is_ok &= plain.valid[r] != 0 && plain.has_behaviour(r);
    for (uint64_t r = t - 3; r < t; ++r) is_ok &= plain.valid[r] != 0 && plain.has_behaviour(r);
    is_ok &= plain.valid[t - 6] != 0;  // of the oldest group, only the frame taken is read
    if (is_ok) expected.push_back(t);
  }
  ASSERT_EQ(windows.size(), expected.size());
  ASSERT_GT(windows.size(), 10u);
  WindowBatch batch;
  for (uint64_t i = 0; i < windows.size(); ++i) {
    ASSERT_EQ(windows.at(i).t, expected[i]);
    batch.windows.push_back(i);
  }
  WindowFields(windows).fill(batch);
  for (uint64_t i = 0; i < windows.size(); ++i) {
    const uint64_t t = expected[i];
    for (uint64_t u = 0; u < plain.units; ++u) {
      float sum = 0;
      bool is_valid = true;
      for (uint64_t k = 0; k < 3; ++k) {
        sum += plain.robs[(t + k) * plain.units + u];
        is_valid &= plain.dfs[(t + k) * plain.units + u] != 0;
      }
      EXPECT_EQ(batch.parts[0].counts[i * plain.units + u], sum);
      EXPECT_EQ(batch.parts[0].inputs[1][i * plain.units + u], sum);
      EXPECT_EQ(batch.parts[0].validity[i * plain.units + u], is_valid);
    }
    for (uint64_t lag = 0; lag < 2; ++lag)
      for (uint64_t k = 0; k < kToyBehaviour; ++k) {
        double sum = 0;
        for (uint64_t b = 0; b < 3; ++b)
          sum += double(plain.behaviour[(t - 3 * lag + b) * kToyBehaviour + k]);
        EXPECT_EQ(batch.parts[0].inputs[0][(i * 2 + lag) * kToyBehaviour + k], float(sum / 3));
      }
  }
}

TEST(Windows, ErrorsNameTheCulprit) {
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", 3);
  const auto with = [&](auto change) {
    WindowSettings settings = {.stimulus = {.field = "stim", .lags = 3}};
    change(settings);
    return [&recording, settings] { Windows(recording, settings); };
  };
  EXPECT_ERROR(with([](auto& s) { s.stimulus.lags = 100; })(),
               "session 's0': a window of 100 rows is longer than every trial");
  EXPECT_ERROR(with([](auto& s) { s.stimulus.field = "movie"; })(),
               "session 's0', segment 'noise': no field 'movie' for the stimulus; there is stim");
  EXPECT_ERROR(with([](auto& s) { s.units = {"u9"}; })(), "none of the units chosen");
  EXPECT_ERROR(with([](auto& s) { s.units = {"u0", "s1/u9"}; })(), "no session has a unit 's1/u9'");
  EXPECT_ERROR(with([](auto& s) { s.sessions = {"s7"}; })(), "no session 's7'");
  EXPECT_ERROR(with([](auto& s) { s.segments = {"movies"}; })(), "no session has a segment");
  EXPECT_ERROR(with([](auto& s) { s.step = 0; })(), "at least one bin");
  EXPECT_ERROR(with([](auto& s) { s.counts = "trial"; })(),
               "field 'trial' of s0/noise has 1 columns, but the session has 2 units");
  EXPECT_ERROR(with([](auto& s) { s.validity = "behavior"; })(),
               "name another field for the validity");
}

// 20 rows without trials; a row of counts and of frames may be not finite, and marked or not.
Recording write_plain(const fs::path& path, int nan_frame, int nan_count, bool is_marked) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> stim(20 * 4, 0.5f), robs(20 * 2, 1.0f);
  std::vector<uint8_t> dfs(20 * 2, 1), stim_valid(20, 1);
  if (nan_frame >= 0) stim[size_t(nan_frame) * 4 + 1] = kNan;
  if (nan_count >= 0) robs[size_t(nan_count) * 2 + 1] = kNan;
  if (nan_frame >= 0 && is_marked) stim_valid[size_t(nan_frame)] = 0;
  if (nan_count >= 0 && is_marked) dfs[size_t(nan_count) * 2 + 1] = 0;
  RecordingWriter writer(path, {});
  writer.begin_session({.name = "a", .rate = 120, .units = {"x", "y"}});
  writer.begin_segment("m");
  writer.add_field("stim", FieldRole::stimulus, Array::from(std::move(stim), {20, 2, 2}));
  writer.add_field("robs", FieldRole::counts, Array::from(std::move(robs), {20, 2}));
  writer.add_field("dfs", FieldRole::validity, Array::from(std::move(dfs), {20, 2}));
  writer.add_field("stim_valid", FieldRole::validity, Array::from(std::move(stim_valid)));
  return writer.commit({});
}

TEST(Windows, ANanThatAWindowServesIsRefusedAndOneThatIsInvalidIsNot) {
  const TemporaryDirectory folder;
  const WindowSettings settings = {.stimulus = {.field = "stim", .lags = 3}};
  EXPECT_EQ(Windows(write_plain(folder / "none", -1, -1, false), settings).size(), 18u);
  EXPECT_ERROR(Windows(write_plain(folder / "f", 7, -1, false), settings),
               "field 'stim' of a/m is not finite in row 7");
  EXPECT_ERROR(Windows(write_plain(folder / "c", -1, 9, false), settings),
               "field 'robs' of a/m is not finite in row 9 for unit 'y'");
  EXPECT_EQ(Windows(write_plain(folder / "mf", 7, -1, true), settings).size(), 15u);
  WindowSettings other = settings;  // nobody reads the unit
  other.units = {"x"};
  EXPECT_EQ(Windows(Recording::open(folder / "c"), other).size(), 18u);
  const Windows windows(write_plain(folder / "mc", -1, 9, true), settings);
  EXPECT_EQ(windows.size(), 18u);
  WindowBatch batch;
  batch.windows = {7};  // t = 9
  WindowFields(windows).fill(batch);
  EXPECT_EQ(batch.parts[0].counts, (std::vector<float>{1, 0}));
  EXPECT_EQ(batch.parts[0].validity, (std::vector<uint8_t>{1, 0}));
}

TEST(Windows, ANamedValidityOfWholeRowsExcusesNanCounts) {
  const TemporaryDirectory folder;
  RecordingWriter writer(folder / "r", {});
  std::vector<float> robs(20 * 2, 1.0f);
  std::vector<uint8_t> flags(20, 1);
  robs[19] = std::numeric_limits<float>::quiet_NaN();  // row 9
  flags[9] = 0;
  writer.begin_session({.name = "a", .rate = 120, .units = {"x", "y"}});
  writer.begin_segment("m");
  writer.add_field("stim", FieldRole::stimulus,
                   Array::from(std::vector<uint8_t>(20 * 4), {20, 2, 2}));
  writer.add_field("robs", FieldRole::counts, Array::from(std::move(robs), {20, 2}));
  writer.add_field("good", FieldRole::validity, Array::from(std::move(flags)));
  const Windows windows(writer.commit({}),
                        {.stimulus = {.field = "stim", .lags = 1}, .validity = "good"});
  WindowBatch batch;
  batch.windows = {8, 9};
  WindowFields(windows).fill(batch);
  EXPECT_EQ(batch.parts[0].counts, (std::vector<float>{1, 1, 1, 0}));
  EXPECT_EQ(batch.parts[0].validity, (std::vector<uint8_t>{1, 1, 0, 0}));
}

TEST(WindowFields, AnInputIsAsWideInAllSegmentsOfASession) {
  const TemporaryDirectory folder;
  RecordingWriter writer(folder / "r", {});
  writer.begin_session({.name = "a", .rate = 120, .units = {"x"}});
  for (const uint64_t columns : {2, 5}) {
    writer.begin_segment("m" + std::to_string(columns));
    writer.add_field("stim", FieldRole::stimulus,
                     Array::from(std::vector<uint8_t>(20 * 4), {20, 2, 2}));
    writer.add_field("robs", FieldRole::counts, Array::from(std::vector<uint8_t>(20), {20, 1}));
    writer.add_field("gaze", FieldRole::behaviour,
                     Array::from(std::vector<float>(20 * columns), {20, columns}));
  }
  const Recording recording = writer.commit({});
  WindowSettings settings = {.stimulus = {.field = "stim", .lags = 1},
                             .inputs = {{.field = "gaze", .lags = 1}}};
  EXPECT_ERROR(WindowFields(Windows(recording, settings)),
               "input 'gaze' of session 'a' has 5 columns in segment 'm5', but 2 in 'm2'");
  settings.segments = {"m5"};
  EXPECT_EQ(WindowFields(Windows(recording, settings)).input_columns(0, 0), 5u);
}

}  // namespace
}  // namespace lacuna
