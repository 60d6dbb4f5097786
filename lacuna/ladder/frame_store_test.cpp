#include "lacuna/ladder/frame_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/chunk_sample.h"
#include "lacuna/ladder/frames.h"
#include "lacuna/recording/recording_writer.h"
#include "lacuna/recording/testing.h"
#include "lacuna/recording/windows.h"

namespace lacuna {
namespace {

const std::vector<Form> kStoreForms = {Form::bf16, Form::f32, Form::chunks};

struct StoredToy {
  TemporaryDirectory folder;
  uint64_t seed = test_seed();
  Recording recording = write_toy_recording(folder / "rec", seed);

  fs::path store(Form form) const { return folder / ("store-" + std::string(name(form))); }
  PreparedFrames prepare(Form form, const PrepareFramesOptions& options = {}) const {
    return prepare_frames(recording, {.form = form, .rows_per_chunk = 9}, store(form), options);
  }
  Frames frames(const std::string& rung) const {
    const Rung chosen = recording_rung_from_name(rung);
    const bool has_store = chosen.form != Form::u8;
    return Frames(recording,
                  {.rung = chosen, .store = has_store ? store(chosen.form) : fs::path()});
  }
};

// Every row of every segment, newest first in windows of 5.
void expect_equal_frames(const Recording& recording, const Frames& a, const Frames& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  std::vector<std::byte> left(5 * a.frame_bytes()), right(left.size());
  for (uint32_t s = 0; s < recording.sessions().size(); ++s)
    for (uint32_t g = 0; g < recording.sessions()[s].segments.size(); ++g)
      for (uint64_t t = 4; t < recording.sessions()[s].segments[g].frames; ++t) {
        a.read(s, g, t, 5, 1, left.data());
        b.read(s, g, t, 5, 1, right.data());
        ASSERT_EQ(left, right) << s << " " << g << " " << t;
      }
}

TEST(FrameStore, EveryRungThatReadsOneGivesTheSameNumbers) {
  const StoredToy toy;
  SCOPED_TRACE(toy.seed);
  for (const Form form : kStoreForms) {
    const PreparedFrames made = toy.prepare(form);
    EXPECT_EQ(made.sessions, 3);
    EXPECT_EQ(made.written, 3);
    FrameStore::open(toy.store(form), toy.recording, form, "stim")
        .verify(toy.recording, true, Progress::none());
  }
  const auto plain = [&](const std::string& rung) {
    return Frames(toy.recording, {.rung = recording_rung_from_name(rung)});
  };
  for (const auto& [rung, same] :
       std::vector<std::pair<std::string, std::string>>{{"disk:bf16", "ram:bf16"},
                                                        {"disk:f32", "ram:f32"},
                                                        {"disk:f32", "disk:u8@worker"},
                                                        {"disk:chunks@device", "ram:u8@device"},
                                                        {"ram:chunks@device", "ram:u8@device"},
                                                        {"disk:chunks@worker", "ram:f32"},
                                                        {"ram:chunks@worker", "ram:f32"},
                                                        {"disk:u8@device", "ram:u8@device"}}) {
    SCOPED_TRACE(rung);
    expect_equal_frames(toy.recording, toy.frames(rung), plain(same));
  }
  EXPECT_GT(toy.frames("ram:chunks").held_bytes(), 0);
  EXPECT_EQ(toy.frames("disk:chunks").held_bytes(), 0);
}

TEST(FrameStore, ANewSessionPreparesOnlyItself) {
  const StoredToy toy;
  for (const Form form : kStoreForms) toy.prepare(form);
  RecordingWriter writer(toy.recording.path(), {.add = true});
  write_toy_sessions(writer, toy.seed, {.sessions = 1, .first_session = 3});
  const Recording grown = writer.commit({});
  for (const Form form : kStoreForms) {
    SCOPED_TRACE(name(form));
    EXPECT_ERROR(Frames(grown, {.rung = {Place::disk, form}, .store = toy.store(form)}),
                 "lacks session 's3'");
    const auto before = fs::last_write_time(toy.store(form) / "s0" / "manifest.json");
    const PreparedFrames made =
        prepare_frames(grown, {.form = form, .rows_per_chunk = 9}, toy.store(form), {});
    EXPECT_EQ(made.written, 1);
    EXPECT_EQ(made.sessions, 4);
    EXPECT_EQ(fs::last_write_time(toy.store(form) / "s0" / "manifest.json"), before);
    EXPECT_NO_THROW(Frames(grown, {.rung = {Place::disk, form}, .store = toy.store(form)}));
  }
}

// A stop at any moment leaves an unfinished store that is completed, not begun again.
TEST(FrameStore, AStoppedStoreIsCompleted) {
  for (const Form form : kStoreForms) {
    SCOPED_TRACE(name(form));
    const StoredToy toy;
    {
      const StopAfter stop(3);
      const PreparedFrames made = toy.prepare(form);
      EXPECT_TRUE(made.is_stopped);
      EXPECT_LT(made.written, 3);
    }
    EXPECT_ERROR(FrameStore::open(toy.store(form), toy.recording, form, "stim"), "unfinished");
    const PreparedFrames made = toy.prepare(form);
    EXPECT_EQ(made.sessions, 3);
    FrameStore::open(toy.store(form), toy.recording, form, "stim")
        .verify(toy.recording, true, Progress::none());
  }
}

TEST(FrameStore, NobodyWritesToAStoreThatIsRead) {
  const StoredToy toy;
  toy.prepare(Form::bf16);
  {
    const Frames reader = toy.frames("disk:bf16");
    const Frames copy = reader;
    EXPECT_ERROR(toy.prepare(Form::bf16, {.again = true}), "in use by another program");
    EXPECT_NO_THROW(toy.frames("disk:bf16"));  // any number of readers
  }
  EXPECT_EQ(toy.prepare(Form::bf16, {.again = true}).written, 3);
  const auto writer = DirectoryWriter::lock(toy.store(Form::bf16));
  EXPECT_ERROR(toy.frames("disk:bf16"), "in use by another program that writes to it");
}

TEST(FrameStore, AnotherStoreOrStaleFramesAreRefused) {
  const StoredToy toy;
  toy.prepare(Form::bf16);
  EXPECT_ERROR(prepare_frames(toy.recording, {.form = Form::f32}, toy.store(Form::bf16), {}),
               "choose another folder");
  EXPECT_ERROR(
      Frames(toy.recording, {.rung = {Place::disk, Form::f32}, .store = toy.store(Form::bf16)}),
      "for rung disk:bf16");
  EXPECT_ERROR(Frames(toy.recording, {.rung = {Place::disk, Form::bf16}}), "needs a store");
  EXPECT_ERROR(Frames(toy.recording, {.rung = {Place::disk, Form::bf16}, .store = "/none"}),
               "there is no store");
  const Recording other =
      write_toy_recording(toy.folder / "other", toy.seed, {.frames = 300});  // the same names
  EXPECT_ERROR(Frames(other, {.rung = {Place::disk, Form::bf16}, .store = toy.store(Form::bf16)}),
               "--again");
  EXPECT_ERROR(prepare_frames(other, {.form = Form::bf16}, toy.store(Form::bf16), {}), "--again");
  // Some sessions made again say nothing about the others.
  EXPECT_EQ(prepare_frames(other, {.form = Form::bf16}, toy.store(Form::bf16),
                           {.sessions = {"s0"}, .again = true})
                .written,
            1);
  EXPECT_ERROR(Frames(other, {.rung = {Place::disk, Form::bf16}, .store = toy.store(Form::bf16)}),
               "session 's1'");
  EXPECT_EQ(
      prepare_frames(other, {.form = Form::bf16}, toy.store(Form::bf16), {.again = true}).written,
      3);
  EXPECT_NO_THROW(
      Frames(other, {.rung = {Place::disk, Form::bf16}, .store = toy.store(Form::bf16)}));
}

// "rest" lies between two movies and has none: its numbers must not shift those after it.
TEST(FrameStore, SegmentsWithoutFramesAreLeftOut) {
  const TemporaryDirectory folder;
  RecordingWriter writer(folder / "rec", {});
  writer.begin_session({.name = "a", .rate = 120, .units = {"x"}});
  for (const std::string segment : {"one", "rest", "two"}) {
    writer.begin_segment(segment);
    writer.add_field("robs", FieldRole::counts, Array::from(std::vector<uint8_t>(40), {40, 1}));
    if (segment == "rest") continue;
    const uint8_t pixel = segment == "one" ? 1 : 2;
    writer.add_field("stim", FieldRole::stimulus,
                     Array::from(std::vector<uint8_t>(40 * 4, pixel), {40, 2, 2}));
  }
  const Recording recording = writer.commit({});
  prepare_frames(recording, {.form = Form::chunks}, folder / "store", {});
  FrameStore::open(folder / "store", recording, Form::chunks, "stim")
      .verify(recording, true, Progress::none());
  for (const std::string rung :
       {"disk:u8@device", "ram:u8@device", "disk:chunks@device", "ram:chunks@device"}) {
    SCOPED_TRACE(rung);
    const Rung chosen = recording_rung_from_name(rung);
    const Frames frames(
        recording, {.rung = chosen, .store = needs_store(chosen) ? folder / "store" : fs::path()});
    std::vector<std::byte> out(frames.frame_bytes());
    frames.read(0, 0, 5, 1, 1, out.data());
    EXPECT_EQ(out, std::vector<std::byte>(4, std::byte(1)));
    frames.read(0, 2, 5, 1, 1, out.data());
    EXPECT_EQ(out, std::vector<std::byte>(4, std::byte(2)));
    EXPECT_EQ(frames.resident_rows(), 80);
    EXPECT_EQ(frames.resident_row(0, 2, 3), 43);
  }
}

TEST(FrameStore, TheCommandThatMakesItSaysAllSettings) {
  EXPECT_EQ(prepare_frames_command("rec", {.form = Form::chunks}, "out"),
            "lacuna prepare rec --rung disk:chunks --out out");
  EXPECT_EQ(prepare_frames_command(
                "rec", {.form = Form::chunks, .compressor = "zstd", .rows_per_chunk = 9}, "out"),
            "lacuna prepare rec --rung disk:chunks --out out --compressor zstd --rows-per-chunk 9");
}

// A byte changed anywhere in a store shows when its windows are read, or they are right.
TEST(FrameStore, AFlippedByteInAnyFileIsNeverSilent) {
  const StoredToy toy;
  SCOPED_TRACE(toy.seed);
  Random random(toy.seed, 2);
  uint64_t seen = 0, kinds = 0;
  for (const auto& [form, rung, same] : std::vector<std::tuple<Form, std::string, std::string>>{
           {Form::bf16, "disk:bf16", "ram:bf16"},
           {Form::f32, "disk:f32", "ram:f32"},
           {Form::chunks, "disk:chunks@device", "disk:u8@device"},
           {Form::chunks, "ram:chunks@device", "disk:u8@device"}}) {
    toy.prepare(form);
    const Frames expected(toy.recording, {.rung = recording_rung_from_name(same)});
    for (const auto& entry : fs::recursive_directory_iterator(toy.store(form))) {
      if (!entry.is_regular_file()) continue;
      ++kinds;
      for (int flip = 0; flip < 3; ++flip) {
        const uint64_t place = random.below(entry.file_size());
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(long(place));
        const char byte = char(file.get());
        const auto put = [&](char value) {
          file.seekp(long(place));
          file.put(value);
          file.flush();
        };
        put(char(byte ^ (1 << random.below(8))));
        SCOPED_TRACE(fmt::format("{} byte {} on {}", entry.path().string(), place, rung));
        try {
          expect_equal_frames(toy.recording, toy.frames(rung), expected);
        } catch (const Error&) {
          ++seen;
        }
        put(byte);
      }
    }
  }
  EXPECT_GT(kinds, 20);
  EXPECT_GT(seen, kinds);  // most of them
}

TEST(ChunkSample, MeasuresTheUsersOwnFrames) {
  const StoredToy toy;
  const ChunkSample noise = sample_chunks(toy.recording, {.form = Form::chunks});
  EXPECT_GT(noise.raw_bytes, 0);
  EXPECT_LT(noise.ratio(), 1.1);  // the toy's pixels are noise
  EXPECT_GT(noise.unpack_rate, 0);
  TemporaryDirectory folder;
  RecordingWriter writer(folder / "flat", {});
  writer.begin_session({.name = "s", .rate = 120, .units = {"u"}});
  writer.begin_segment("grey");
  writer.add_field("stim", FieldRole::stimulus,
                   Array::from(std::vector<uint8_t>(500 * 400, 9), {500, 20, 20}));
  EXPECT_GT(sample_chunks(writer.commit({}), {.form = Form::chunks}).ratio(), 10);
}

}  // namespace
}  // namespace lacuna
