// Numbers are compared with NumPy in tests/test_transforms.py; here, what must be refused.
#include "lacuna/recording/transforms/transforms.h"

#include <gtest/gtest.h>

#include "lacuna/core/system/file.h"
#include "lacuna/recording/recording_writer.h"
#include "lacuna/recording/testing.h"
#include "lacuna/recording/transforms/derive_recording.h"
#include "lacuna/recording/windows.h"
#include "lacuna/screen/samples.h"

namespace lacuna {
namespace {

// The toy with a split whose training rows all lie in the first segment of session s1.
Recording with_training_in_one_segment(const fs::path& path) {
  const Recording recording = write_toy_recording(path, 5, {.sessions = 2, .has_nan = false});
  RecordingSplit split;
  split.name = "one";
  std::vector<uint8_t> parts;
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments) {
      split.segments.push_back({session.name, segment.name, parts.size(), segment.frames});
      const bool is_train = session.name == "s1" && segment.name == "noise";
      parts.resize(parts.size() + segment.frames, uint8_t(is_train ? Part::train : Part::test));
    }
  split.parts = Array::from(std::move(parts));
  add_split(path, split);
  return Recording::open(path);
}

TEST(Transforms, AStatisticWithoutTrainingRowsIsRefused) {
  const TemporaryDirectory folder;
  const Recording recording = with_training_in_one_segment(folder / "r");
  const Session& session = recording.session("s1");
  const auto first_row = [&](const std::string& op, const Json& settings, const char* segment) {
    const Transforms transforms(recording,
                                {{"g", {{"from", "behavior"}, {"ops", {{{op, settings}}}}}}});
    return transforms.rows(session, session.segment(segment), "g", 0, 1);
  };
  for (const char* op : {"standardise", "max_norm"}) {
    SCOPED_TRACE(op);
    EXPECT_NO_THROW(first_row(op, Json::object(), "noise"));
    EXPECT_ERROR(first_row(op, Json::object(), "images"),
                 "s1/images has no training rows there; use over: session or recording");
    EXPECT_ERROR(first_row(op, {{"split", "one"}}, "images"), "split 'one'");
    EXPECT_NO_THROW(first_row(op, {{"over", "session"}}, "images"));
    EXPECT_NO_THROW(first_row(op, {{"rows", "all"}}, "images"));
  }
}

TEST(Transforms, RowsMadeOfInvalidOnesAreNotServed) {
  const TemporaryDirectory folder;
  RecordingWriter writer(folder / "r", {});
  std::vector<uint8_t> flags(20, 1);
  flags[7] = 0;
  writer.begin_session({.name = "a", .rate = 120, .units = {"x"}});
  writer.begin_segment("m");
  writer.add_field("stim", FieldRole::stimulus,
                   Array::from(std::vector<uint8_t>(20 * 4), {20, 2, 2}));
  writer.add_field("robs", FieldRole::counts, Array::from(std::vector<uint8_t>(20), {20, 1}));
  writer.add_field("gaze", FieldRole::behaviour, Array::from(std::vector<float>(20), {20, 1}));
  writer.add_field("gaze_valid", FieldRole::validity, Array::from(std::move(flags)));
  const Recording recording = writer.commit({});
  // Rows 7, 8 and 9 are made of row 7, and so is one lag of the window after them.
  const Json transforms = {{"d", {{"from", "gaze"}, {"ops", {{{"difference", {{"lag", 2}}}}}}}},
                           {"e", {{"from", "d"}, {"ops", {"symlog"}}}}};
  const auto times = [](const Windows& windows) {
    std::vector<uint64_t> times;
    for (uint64_t i = 0; i < windows.size(); ++i) times.push_back(windows.at(i).t);
    return times;
  };
  WindowSettings settings = {.stimulus = {.field = "stim", .lags = 1},
                             .inputs = {{.field = "e", .lags = 2}},
                             .transforms = transforms};
  const auto late = times(Windows(recording, settings));
  EXPECT_EQ(late, (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  settings.transforms = Json::object();
  const Recording written =
      derive_recording(recording, folder / "w", {.transforms = transforms}, "test").recording;
  EXPECT_EQ(times(Windows(written, settings)), late);
}

TEST(Transforms, AKeyKnowsTheSplitAndTheFilesOfFunctions) {
  const TemporaryDirectory folder;
  const Recording recording = with_training_in_one_segment(folder / "r");
  const auto key = [&](const Recording& of, const char* session, const Json& field) {
    const Json settings = {{"g", field}};
    return transform_key(of, session, settings, Transforms(of, settings).fields());
  };
  const Json statistic = {{"from", "behavior"}, {"ops", {{{"standardise", {{"split", "one"}}}}}}};
  const Json plain = {{"from", "behavior"}, {"ops", {"symlog"}}};
  const Json python = {{"from", "behavior"}, {"python", (folder / "f.py").string() + ":f"}};
  write_text_atomically(folder / "f.py", "1");
  const uint64_t before = key(recording, "s1", statistic), other = key(recording, "s0", statistic);
  const uint64_t simple = key(recording, "s1", plain), called = key(recording, "s1", python);
  RecordingSplit split = remove_recording_split(folder / "r", "one");
  std::vector<uint8_t> parts(split.parts.as<uint8_t>().begin(), split.parts.as<uint8_t>().end());
  parts.back() = uint8_t(Part::train);  // of s1
  split.parts = Array::from(std::move(parts));
  add_split(folder / "r", split);
  write_text_atomically(folder / "f.py", "2");
  const Recording changed = Recording::open(folder / "r");
  EXPECT_NE(key(changed, "s1", statistic), before);
  EXPECT_EQ(key(changed, "s0", statistic), other);
  EXPECT_EQ(key(changed, "s1", plain), simple);
  EXPECT_NE(key(changed, "s1", python), called);
}

}  // namespace
}  // namespace lacuna
