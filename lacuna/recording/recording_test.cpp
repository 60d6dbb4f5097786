#include "lacuna/recording/recording.h"

#include <gtest/gtest.h>

#include <numeric>

#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/testing.h"
#include "lacuna/store/testing.h"

namespace lacuna {
namespace {

TEST(Recording, OpensWithWhatWasWritten) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", seed);
  ASSERT_EQ(recording.sessions().size(), 3u);
  const Session& session = recording.session("s1");
  EXPECT_EQ(session.subject, "b");
  EXPECT_EQ(session.units, (std::vector<std::string>{"u0", "u1", "u2"}));
  ASSERT_EQ(session.segments.size(), 2u);
  const Field& stim = session.segment("images").field("stim");
  EXPECT_EQ(stim.shape, (Shape{session.segments[1].frames, kToyHeight, kToyWidth}));
  const Array frames = stim.map();
  const auto pixels = frames.as<uint8_t>();
  for (uint64_t t = 0; t < stim.rows(); ++t)
    ASSERT_EQ(pixels[t * 35 + 2 * 7 + 3], toy_pixel(1, 1, t, 2, 3)) << t;
  EXPECT_EQ(read_npy(stim.place.file).shape(), stim.shape);  // NumPy's own header agrees
  EXPECT_EQ(session.segments[0].find(FieldRole::time)->name, "time");
  EXPECT_ERROR(session.segment("images").field("eye"), "no field 'eye'; there is stim, robs");
  EXPECT_ERROR(recording.session("s9"), "there is s0, s1, s2");
  recording.check(Progress::none());
}

TEST(Recording, SessionsAreAddedLaterAndNotTwice) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const Recording before = write_toy_recording(folder / "r", seed, {.sessions = 2});
  {  // one that is never committed changes nothing
    RecordingWriter writer(folder / "r", {.add = true});
    write_toy_sessions(writer, seed, {.sessions = 1, .first_session = 2});
  }
  EXPECT_EQ(Recording::open(folder / "r").sessions().size(), 2u);
  RecordingWriter writer(folder / "r", {.add = true});
  EXPECT_ERROR(writer.begin_session({.name = "s1", .rate = 120}), "session 's1' is there already");
  write_toy_sessions(writer, seed, {.sessions = 1, .first_session = 2});
  const Recording after = writer.commit({{"command", "again"}});
  EXPECT_EQ(after.sessions().size(), 3u);
  EXPECT_TRUE(before.fingerprint().differing_parts(after.fingerprint()).empty());
  EXPECT_EQ(after.fingerprint().parts().size(), 3u);
  after.check(Progress::none());
  // The same bytes as if all had been written at once.
  const Recording whole = write_toy_recording(folder / "w", seed);
  EXPECT_EQ(whole.fingerprint().value(), after.fingerprint().value());
}

TEST(Recording, AnUnfinishedOneIsRefusedAndStartedAfresh) {
  const TemporaryDirectory folder;
  {
    RecordingWriter writer(folder / "r", {});
    write_toy_sessions(writer, 1, {.sessions = 1});
  }
  EXPECT_ERROR(Recording::open(folder / "r"), "unfinished");
  EXPECT_EQ(write_toy_recording(folder / "r", 2, {.sessions = 2}).sessions().size(), 2u);
}

TEST(Recording, FieldsShareOneTimeAxis) {
  const TemporaryDirectory folder;
  RecordingWriter writer(folder / "r", {});
  writer.begin_session({.name = "a", .rate = 120, .units = {"x", "y"}});
  writer.begin_segment("m");
  writer.add_field("time", FieldRole::time, Array::from(std::vector<double>(10)));
  EXPECT_ERROR(writer.add_field("trial", FieldRole::trial, Array::from(std::vector<int32_t>(9))),
               "fields of a/m differ in length: 'time' has 10 rows, 'trial' has 9");
}

TEST(Recording, WrongFieldsAreNamed) {
  const TemporaryDirectory folder;
  RecordingWriter writer(folder / "r", {});
  EXPECT_ERROR(writer.begin_session({.name = "a/b", .rate = 120}), "cannot be named 'a/b'");
  EXPECT_ERROR(writer.begin_session({.name = "a", .rate = 0}), "rate of 0");
  EXPECT_ERROR(writer.begin_session({.name = "a", .rate = 9, .units = {"x", "x"}}), "'x' twice");
  writer.begin_session({.name = "a", .rate = 120, .units = {"x", "y"}});
  writer.begin_segment("m");
  EXPECT_ERROR(writer.begin_segment("m"), "there twice");
  EXPECT_ERROR(
      writer.add_field("robs", FieldRole::counts, Array::from(std::vector<uint8_t>(12), {4, 3})),
      "rows of [3], but the session names 2 units");
  EXPECT_ERROR(writer.commit({}), "has no fields");
}

TEST(Recording, PackedRowsAreBits) {
  const TemporaryDirectory folder;
  RecordingWriter writer(folder / "r", {});
  writer.begin_session(
      {.name = "a",
       .rate = 120,
       .units = std::vector<std::string>({"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"})});
  writer.begin_segment("m");
  writer.begin_field({.name = "dfs",
                      .role = FieldRole::validity,
                      .row_shape = {10},
                      .packed = true,
                      .recorded_as = "f32",
                      .rows = 3});
  const std::vector<uint8_t> rows = {0xff, 3, 0, 0, 1, 2};
  writer.append(std::as_bytes(std::span(rows)));
  writer.end_field();
  const Recording recording = writer.commit({});
  const Field& field = recording.sessions()[0].segments[0].field("dfs");
  EXPECT_EQ(field.shape, (Shape{3, 10}));
  EXPECT_EQ(field.row_bytes(), 2u);
  EXPECT_EQ(field.recorded_as, "f32");
  EXPECT_EQ(read_npy(field.place.file).shape(), (Shape{3, 2}));
  recording.check(Progress::none());
}

TEST(Recording, FieldsInPlaceStayWhereTheyAre) {
  const TemporaryDirectory folder;
  std::vector<uint8_t> frames(100 * 600);
  for (size_t i = 0; i < frames.size(); ++i) frames[i] = uint8_t(mix64(i));
  write_file(folder / "movie.dat",
             std::string(16, 'x') + std::string(frames.begin(), frames.end()));
  RecordingWriter writer(folder / "r", {});
  writer.begin_session({.name = "a", .rate = 120});
  writer.begin_segment("m");
  writer.add_in_place("stim", FieldRole::stimulus, DType::u8, {100, 20, 30},
                      {.file = folder / "movie.dat", .offset = 16});
  const Recording recording = writer.commit({});
  const Field& field = recording.sessions()[0].segments[0].field("stim");
  EXPECT_TRUE(field.place.in_place);
  EXPECT_FALSE(fs::exists(folder / "r/a/m/stim.npy"));
  EXPECT_EQ(field.map().as<uint8_t>()[601], frames[601]);
  recording.check(Progress::none());
  CheckedRows rows(field);
  rows.check(0, 100, field.map().bytes().data());
  flip(folder / "movie.dat", 16 + 600 * 41 + 7);
  EXPECT_ERROR(recording.check(Progress::none()), "imported in place, has changed");
  rows.check(41, 1, field.map().bytes().data() + 41 * 600);  // compared once: memory is trusted
  rows.forget();
  rows.check(0, 41, field.map().bytes().data());
  EXPECT_ERROR(rows.check(40, 3, field.map().bytes().data() + 40 * 600), "row 41 have changed");
  fs::resize_file(folder / "movie.dat", 1000);
  EXPECT_ERROR(Recording::open(folder / "r"), "truncated: field 'stim'");
  fs::remove(folder / "movie.dat");
  EXPECT_ERROR(Recording::open(folder / "r"), "movie.dat: missing");
}

TEST(Recording, ATruncatedFieldIsRefused) {
  const TemporaryDirectory folder;
  write_toy_recording(folder / "r", 1);
  const fs::path file = folder / "r/s1/images/stim.npy";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_ERROR(Recording::open(folder / "r"), "s1/images/stim.npy");
}

TEST(CheckedRows, EveryChangedByteOfASmallFieldIsSeen) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", seed, {.frames = 30000});
  for (const Field& field : recording.sessions()[1].segments[1].fields) {
    EXPECT_EQ(read_checked(field).bytes().size(), field.bytes());
    const uint64_t byte = field.place.offset + random.below(field.bytes());
    flip(field.place.file, byte, unsigned(random.below(8)));
    EXPECT_ERROR(read_checked(field), "have changed") << field.name;
  }
}

TEST(CheckedRows, EveryChangedByteOfAHeaderIsSeen) {
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", 5);
  const Session& session = recording.sessions()[0];
  for (const Field& field : session.segments[0].fields)
    for (uint64_t byte = 0; byte < field.place.offset; byte += 5) {
      flip(field.place.file, byte, unsigned(byte % 8));
      EXPECT_ERROR(read_checked(field), "the header before the rows of field") << field.name;
      flip(field.place.file, byte, unsigned(byte % 8));
    }
  EXPECT_NO_THROW(read_checked(session.segments[0].fields[0]));
}

TEST(Recording, NanRowsAreCountedAndMarked) {
  const TemporaryDirectory folder;
  const Recording recording = write_toy_recording(folder / "r", 5);
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments) {
      const Field& field = segment.field("behavior");
      const Array rows = field.map(), nan = read_nan_rows(field);
      uint64_t found = 0;
      for (uint64_t t = 0; t < field.rows(); ++t) {
        const auto row = rows.as<float>().subspan(t * kToyBehaviour, kToyBehaviour);
        const bool is_nan = std::isnan(row[0]) || std::isnan(row[1]) || std::isnan(row[2]);
        found += is_nan;
        if (field.nan_rows > 0) {
          EXPECT_EQ(nan.as<uint8_t>()[t], is_nan) << t;
        }
      }
      EXPECT_EQ(found, field.nan_rows);
    }
}

}  // namespace
}  // namespace lacuna
