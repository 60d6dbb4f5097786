#include "lacuna/recording/trial_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lacuna/recording/field_values.h"
#include "lacuna/recording/generate_recording.h"
#include "lacuna/recording/recording_summary.h"
#include "lacuna/recording/testing.h"
#include "lacuna/recording/windows.h"
#include "lacuna/screen/samples.h"
#include "lacuna/store/testing.h"

namespace lacuna {
namespace {

// Which parts each trial and each stimulus lies in.
struct PartsSeen {
  std::map<std::tuple<std::string, std::string, int64_t>, std::set<uint8_t>> trials;
  std::map<std::pair<std::string, int64_t>, std::set<uint8_t>> stimuli;  // "" for all sessions
  std::map<std::string, std::set<uint8_t>> sessions;

  PartsSeen(const Recording& recording, const RecordingSplit& split, bool by_session) {
    for (const Session& session : recording.sessions())
      for (const Segment& segment : session.segments) {
        const auto trial = read_whole_numbers(segment.field("trial"));
        const auto stimulus = read_whole_numbers(segment.field("stimulus"));
        const auto parts = split.of(session.name, segment.name);
        EXPECT_EQ(parts.size(), segment.frames);
        for (uint64_t t = 0; t < segment.frames; ++t) {
          if (trial[t] < 0) {
            EXPECT_EQ(parts[t], 255);
            continue;
          }
          trials[{session.name, segment.name, trial[t]}].insert(parts[t]);
          stimuli[{by_session ? session.name : "", stimulus[t]}].insert(parts[t]);
          sessions[session.name].insert(parts[t]);
        }
      }
  }
};

TEST(TrialSplit, KeepsTrialsAndStimuliWhole) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", seed, {.frames = 2000});
  for (const RepeatScope scope : {RepeatScope::recording, RepeatScope::session}) {
    const RecordingSplit split = draw_trial_split(
        recording, "s", {.fractions = {0.5, 0.2, 0.2}, .seed = seed, .repeats = scope});
    const PartsSeen seen(recording, split, scope == RepeatScope::session);
    for (const auto& [trial, parts] : seen.trials) EXPECT_EQ(parts.size(), 1u);
    for (const auto& [stimulus, parts] : seen.stimuli) EXPECT_EQ(parts.size(), 1u);
    EXPECT_GT(split.how.at("counts").at("test").get<uint64_t>(), 0u);
    EXPECT_GT(split.how.at("counts").at("unused").get<uint64_t>(), 0u);
  }
  const RecordingSplit apart =
      draw_trial_split(recording, "s", {.seed = seed, .repeats = RepeatScope::none});
  uint64_t torn = 0;
  const PartsSeen seen(recording, apart, false);
  for (const auto& [trial, parts] : seen.trials) EXPECT_EQ(parts.size(), 1u);
  for (const auto& [stimulus, parts] : seen.stimuli) torn += parts.size() > 1;
  EXPECT_GT(torn, 0u);
}

TEST(TrialSplit, NoPartIsEmptyWhereGroupsReachAcrossSessions) {
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", 5, {.frames = 1500});
  for (uint64_t seed = 0; seed < 50; ++seed) {  // seven stimuli, each in all sessions
    const RecordingSplit split = draw_trial_split(recording, "s", {.seed = seed});
    for (const char* part : {"train", "validation", "test"})
      EXPECT_GT(split.how.at("trials").at(part).get<uint64_t>(), 0u) << part << " " << seed;
  }
}

TEST(TrialSplit, EachSessionHasItsShareOfEveryPart) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = generate_recording(
      folder / "r", {.sessions = 4, .minutes = 0.3, .seed = seed, .side = 17, .units = 3}, "test");
  const RecordingSplit split = draw_trial_split(recording, "s", {.seed = seed});
  for (const auto& [session, parts] : PartsSeen(recording, split, false).sessions)
    EXPECT_TRUE(parts.contains(0) && parts.contains(1) && parts.contains(2)) << session;
  const auto count = [&](const char* part) {
    return split.how.at("counts").at(part).get<double>();
  };
  const double all = count("train") + count("validation") + count("test");
  EXPECT_GT(count("train"), 0.5 * all);
  // The same seed, the same split.
  const RecordingSplit again = draw_trial_split(recording, "s", {.seed = seed});
  EXPECT_EQ(hash64(split.parts.bytes()), hash64(again.parts.bytes()));
}

TEST(TrialSplit, RepeatedStimuliGoWhereTheyAreWanted) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = generate_recording(
      folder / "r", {.sessions = 2, .minutes = 1, .seed = seed, .side = 17, .units = 3}, "test");
  const RecordingSplit split = draw_trial_split(
      recording, "s", {.fractions = {0.4, 0.2, 0.4}, .seed = seed, .repeated = Part::test});
  for (const Session& session : recording.sessions()) {
    const Segment& images = session.segment("images");
    const auto stimulus = read_whole_numbers(images.field("stimulus"));
    const auto parts = split.of(session.name, "images");
    const int64_t repeated =
        *std::ranges::min_element(stimulus, {}, [](int64_t id) { return id < 0 ? INT64_MAX : id; });
    for (uint64_t t = 0; t < images.frames; ++t)
      if (stimulus[t] == repeated) {
        ASSERT_EQ(parts[t], uint8_t(Part::test)) << t;
      }
  }
}

TEST(TrialSplit, IsSavedAndWindowsOfItsPartsShareTheBytes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", seed, {.frames = 1500});
  add_split(folder / "r", draw_trial_split(recording, "trials", {.seed = seed}));
  EXPECT_ERROR(add_split(folder / "r", draw_trial_split(recording, "trials", {})), "has a split");
  const Recording again = Recording::open(folder / "r");
  const RecordingSplit& split = again.split("trials");
  const Windows windows(again, {.stimulus = {.field = "stim", .lags = 4}});
  std::set<std::tuple<uint32_t, uint32_t, uint64_t>> all;
  uint64_t total = 0;
  for (const char* part : {"train", "validation", "test"}) {
    const Windows some = windows.of_part(split, part);
    total += some.size();
    for (uint64_t i = 0; i < some.size(); ++i) {
      const Window w = some.at(i);
      const Session& session = again.sessions()[w.session];
      const auto parts = split.of(session.name, session.segments[w.segment].name);
      for (uint64_t lag = 0; lag < 4; ++lag)
        ASSERT_EQ(parts[w.t - lag], uint8_t(part_from_name(part)));
      all.insert({w.session, w.segment, w.t});
    }
  }
  EXPECT_EQ(total, windows.size());
  EXPECT_EQ(all.size(), total);
  flip(folder / "r/splits/trials.npy", 200);
  EXPECT_ERROR(Recording::open(folder / "r").split("trials"), "have changed");
  remove_recording_split(folder / "r", "trials");
  EXPECT_TRUE(Recording::open(folder / "r").splits().empty());
  EXPECT_FALSE(fs::exists(folder / "r/splits/trials.npy"));
}

TEST(TrialSplit, SessionsAddedLaterAreUnused) {
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", 1, {.frames = 1500});
  add_split(folder / "r", draw_trial_split(recording, "trials", {}));
  RecordingWriter writer(folder / "r", {.add = true});
  write_toy_sessions(writer, 1, {.sessions = 1, .first_session = 3});
  const Recording more = writer.commit({});
  EXPECT_TRUE(more.split("trials").of("s3", "noise").empty());
  const Windows windows(more, {.stimulus = {.field = "stim", .lags = 4}});
  const Windows train = windows.of_part(more.split("trials"), "train");
  EXPECT_EQ(train.of_session(3).first, train.of_session(3).second);
}

TEST(TrialSplit, ComesFromListsOfRows) {
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", 1);
  write_file(
      folder / "lists.json",
      R"({"train": {"s0": [[10, 20], 30], "s1/images": [0, 1, 2]}, "val": {"s0/noise": [5]}})");
  const RecordingSplit split = recording_split_from_json(recording, "given", folder / "lists.json");
  const auto parts = split.of("s0", "noise");
  EXPECT_EQ(parts[9], 255);
  EXPECT_EQ(parts[10], 0);
  EXPECT_EQ(parts[19], 0);
  EXPECT_EQ(parts[20], 255);
  EXPECT_EQ(parts[30], 0);
  EXPECT_EQ(parts[5], 1);
  EXPECT_EQ(split.how.at("counts").at("train"), 14);
  const auto refused = [&](const std::string& text, const std::string& words) {
    write_file(folder / "bad.json", text);
    EXPECT_ERROR(recording_split_from_json(recording, "x", folder / "bad.json"), words);
  };
  refused(R"({"train": {"s0": [3]}, "test": {"s0": [3]}})", "row 3 of s0 is in train and in test");
  refused(R"({"train": {"s0": [99999]}})", "row 99999 of s0 does not exist");
  refused(R"({"train": {"s1": [1]}})", "has 2 segments; name one");
  refused(R"({"train": {"s9": [1]}})", "no session 's9'");
  refused(R"({"train": {"s0": [[1]]}})", "neither the number of a row");
  refused(R"({"training": {}})", "training");
}

TEST(RecordingSummary, CountsWhatThereIs) {
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", 4);
  const RecordingSummary summary = summarise(recording);
  EXPECT_EQ(summary.bytes, recording.bytes());
  const Segment& noise = recording.sessions()[0].segments[0];
  const auto trial = read_whole_numbers(noise.field("trial"));
  std::set<int64_t> trials(trial.begin(), trial.end());
  trials.erase(-1);
  EXPECT_EQ(summary.sessions[0].trials, trials.size());
  EXPECT_EQ(summary.sessions[0].outside, uint64_t(std::count(trial.begin(), trial.end(), -1)));
  EXPECT_EQ(summary.sessions[0].stimuli, std::min<uint64_t>(7, trials.size()));
  EXPECT_EQ(summary.sessions[0].nan, noise.field("behavior").nan_rows);
  EXPECT_EQ(summary.fields[0].name, "stim");
  EXPECT_EQ(summary.fields[0].dtype, "u8");
  EXPECT_EQ(summary.fields[0].row_shape, "5 x 7");
  EXPECT_EQ(summary.fields[1].row_shape, "2 to 4");
  EXPECT_EQ(summary.fields[0].bytes_as_u8, 0u);
}

TEST(RecordingSummary, AFloatMovieOfBytesIsSeen) {
  const TemporaryDirectory folder;
  std::vector<float> plain, shifted, other;
  for (int k = 0; k < 256; ++k) {
    plain.push_back(float(k));
    shifted.push_back((float(k) - 127.0f) / 255.0f);
    other.push_back(float(k) + 0.25f);
  }
  RecordingWriter writer(folder / "r", {});
  writer.begin_session({.name = "a", .rate = 120});
  writer.begin_segment("m");
  writer.add_field("plain", FieldRole::stimulus, Array::from(std::move(plain), {4, 8, 8}));
  writer.add_field("shifted", FieldRole::stimulus, Array::from(std::move(shifted), {4, 8, 8}));
  writer.add_field("other", FieldRole::stimulus, Array::from(std::move(other), {4, 8, 8}));
  const RecordingSummary summary = summarise(writer.commit({}));
  EXPECT_TRUE(summary.fields[0].is_u8_in_disguise);
  EXPECT_TRUE(summary.fields[1].is_u8_in_disguise);
  EXPECT_FALSE(summary.fields[2].is_u8_in_disguise);
  EXPECT_EQ(summary.fields[2].bytes_as_u8, 256u);
}

}  // namespace
}  // namespace lacuna
