// Numbers are compared with NumPy in tests/test_transforms.py; here, what must be refused.
#include "lacuna/recording/transforms/transforms.h"

#include <gtest/gtest.h>

#include "lacuna/recording/testing.h"
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

}  // namespace
}  // namespace lacuna
