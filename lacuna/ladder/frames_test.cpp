#include "lacuna/ladder/frames.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "lacuna/core/text/text.h"
#include "lacuna/ladder/recording_source.h"
#include "lacuna/load/session_order.h"
#include "lacuna/recording/testing.h"

namespace lacuna {
namespace {

constexpr uint64_t kToyPixels = kToyHeight * kToyWidth;

// A frame as the rung is to give it, pixel by pixel.
std::vector<std::byte> expected_frame(DType dtype, uint64_t session, uint64_t segment, uint64_t t) {
  std::vector<std::byte> frame;
  const auto add = [&](auto value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    frame.insert(frame.end(), bytes, bytes + sizeof value);
  };
  for (uint64_t y = 0; y < kToyHeight; ++y)
    for (uint64_t x = 0; x < kToyWidth; ++x) {
      const uint8_t pixel = toy_pixel(session, segment, t, y, x);
      const float number = (float(pixel) - 127.f) / 255.f;
      if (dtype == DType::u8) add(pixel);
      if (dtype == DType::f32) add(number);
      if (dtype == DType::bf16) add(BFloat16(number).bits);
    }
  return frame;
}

// Recordings differ by their seed, so that tests share no memory.
struct Toy {
  TemporaryDirectory folder;
  uint64_t seed = test_seed();
  Recording recording = write_toy_recording(folder / "rec", seed);
};

std::vector<std::string> rungs_without_store() {
  return {"ram:u8@worker",  "ram:u8@device",  "ram:bf16",      "ram:f32",
          "disk:u8@worker", "disk:u8@device", "tiered@worker", "tiered@device"};
}

FramesOptions options_for(const std::string& rung) {
  FramesOptions options = {.rung = recording_rung_from_name(rung)};
  if (options.rung.place == Place::tiered) options.hot_bytes = 500 * kToyPixels;
  return options;
}

TEST(Frames, EveryRungGivesEveryPixelNewestFirst) {
  const Toy toy;
  SCOPED_TRACE(toy.seed);
  Random random(toy.seed, 1);
  for (const std::string& rung : rungs_without_store())
    for (const DType cast : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(rung);
      FramesOptions options = options_for(rung);
      options.cast = cast;
      const Frames frames(toy.recording, options);
      EXPECT_EQ(name(frames.rung()), rung);
      for (uint32_t s = 0; s < toy.recording.sessions().size(); ++s)
        for (uint32_t g = 0; g < toy.recording.sessions()[s].segments.size(); ++g)
          for (int round = 0; round < 20; ++round) {
            const uint64_t rows = toy.recording.sessions()[s].segments[g].frames;
            const uint64_t step = 1 + random.below(3), lags = 1 + random.below(40);
            const uint64_t reach = (lags - 1) * step;
            const uint64_t t = round == 0 ? rows - 1 : reach + random.below(rows - reach);
            std::vector<std::byte> out(lags * frames.frame_bytes() + 8, std::byte(0xa5));
            frames.read(s, g, t, lags, step, out.data());
            for (uint64_t lag = 0; lag < lags; ++lag) {
              const auto expected = expected_frame(frames.dtype(), s, g, t - lag * step);
              ASSERT_EQ(expected.size(), frames.frame_bytes());
              ASSERT_EQ(
                  std::memcmp(out.data() + lag * expected.size(), expected.data(), expected.size()),
                  0)
                  << "t " << t << " lag " << lag << " step " << step;
            }
            ASSERT_EQ(out[lags * frames.frame_bytes()], std::byte(0xa5)) << "written past the end";
          }
    }
}

TEST(Frames, WhatARungSaysItHoldsItHolds) {
  const Toy toy;
  uint64_t rows = 0;
  for (const Session& session : toy.recording.sessions())
    for (const Segment& segment : session.segments) rows += segment.frames;
  EXPECT_EQ(Frames(toy.recording, options_for("ram:u8")).held_bytes(), rows * kToyPixels);
  EXPECT_EQ(Frames(toy.recording, options_for("ram:bf16")).held_bytes(), rows * kToyPixels * 2);
  EXPECT_EQ(Frames(toy.recording, options_for("ram:f32")).held_bytes(), rows * kToyPixels * 4);
  EXPECT_EQ(Frames(toy.recording, options_for("disk:u8")).held_bytes(), 0);
  EXPECT_EQ(Frames(toy.recording, options_for("disk:u8")).disk_bytes(), rows * kToyPixels);
}

TEST(Frames, TieredHoldsWhatIsDrawnMostAByteWithinItsBudget) {
  const Toy toy;
  std::vector<uint64_t> bytes;
  for (const Session& session : toy.recording.sessions()) {
    bytes.push_back(0);
    for (const Segment& segment : session.segments) bytes.back() += segment.frames * kToyPixels;
  }
  FramesOptions options = options_for("tiered");
  options.hot_bytes = bytes[1];
  options.shares = {1, 100, 1};
  EXPECT_EQ(Frames(toy.recording, options).held_bytes(), bytes[1]);
  EXPECT_EQ(Frames(toy.recording, options).note(), "");
  options.hot_bytes = std::ranges::min(bytes) - 1;
  EXPECT_EQ(Frames(toy.recording, options).held_bytes(), 0);
  EXPECT_NE(Frames(toy.recording, options)
                .note()
                .find("the smallest session takes " + format_bytes(std::ranges::min(bytes))),
            std::string::npos);
  options.hot_bytes = bytes[1] + bytes[2] - 1;
  options.shares = {1, 2, 100};
  const uint64_t held = Frames(toy.recording, options).held_bytes();
  EXPECT_LE(held, options.hot_bytes);
  EXPECT_GE(held, bytes[2]);
  options.rungs = {{"s0", Rung::ram_u8}, {"s2", Rung::disk_u8}};
  options.hot_bytes = bytes[0];
  EXPECT_EQ(Frames(toy.recording, options).held_bytes(), bytes[0]);
  options.hot_bytes = bytes[0] - 1;
  EXPECT_ERROR(Frames(toy.recording, options), "named for ram:u8");
  options.rungs = {{"s0", Rung::disk_u8}, {"s1", Rung::disk_u8}, {"s2", Rung::disk_u8}};
  EXPECT_EQ(Frames(toy.recording, options).note(), "");  // as it was told to
  EXPECT_ERROR(Frames(toy.recording, {.rung = {Place::tiered}}), "`tiered.hot`");
  EXPECT_ERROR(Frames(toy.recording, {.rung = Rung::disk_u8, .store = "store"}), "key `store` out");
}

TEST(Frames, AFlippedByteIsNeverSilent) {
  for (const std::string& rung : rungs_without_store()) {
    SCOPED_TRACE(rung);
    const Toy toy;
    const Field& field = toy.recording.sessions()[0].segments[0].field("stim");
    const uint64_t row = 123, place = field.place.offset + row * field.row_bytes() + 17;
    std::fstream file(field.place.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(long(place));
    const char byte = char(file.get());
    file.seekp(long(place));
    file.put(char(byte ^ 4));
    file.close();
    const auto read_all = [&] {
      FramesOptions options = options_for(rung);
      options.hot_bytes = 1 << 20;
      const Frames frames(toy.recording, options);
      std::vector<std::byte> out(33 * frames.frame_bytes());
      for (uint64_t t = 32; t < field.rows(); ++t) frames.read(0, 0, t, 33, 1, out.data());
    };
    EXPECT_ERROR(read_all(), "row 123");
  }
}

TEST(Frames, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const Toy toy;
  FramesOptions options = options_for("ram:f32");
  options.beside_bytes = uint64_t(1) << 50;
  const std::string words = error_of([&] { Frames(toy.recording, options); });
  for (const char* part : {"ram:f32 needs", "are free", "1.13 PB of it are not for frames",
                           "train.batch", "train.threads"})
    EXPECT_NE(words.find(part), words.npos) << words;
}

TEST(Frames, RoundingIsNamed) {
  const Toy toy;
  const auto lost = [&](const Recording& recording, const char* rung) {
    return precision_lost(recording, "stim", recording_rung_from_name(rung));
  };
  EXPECT_EQ(lost(toy.recording, "ram:u8"), "");
  EXPECT_EQ(lost(toy.recording, "disk:f32"), "");
  EXPECT_NE(lost(toy.recording, "ram:bf16").find("256 grey levels stay distinct"),
            std::string::npos);
  RecordingWriter writer(toy.folder / "floats", {});
  writer.begin_session({.name = "s", .rate = 120, .units = {"u"}});
  writer.begin_segment("g");
  writer.add_field("stim", FieldRole::stimulus,
                   Array::from(std::vector<float>(50 * 6, 0.123f), {50, 2, 3}));
  EXPECT_NE(lost(writer.commit({}), "disk:bf16").find("field 'stim', which is f32"),
            std::string::npos);
}

TEST(Frames, SessionsThatAreNotChosenAreNotLoaded) {
  const Toy toy;
  FramesOptions options = options_for("ram:u8");
  options.sessions = {"s2"};
  EXPECT_EQ(Frames(toy.recording, options).held_bytes(),
            toy.recording.sessions()[2].segments[0].frames * kToyPixels);
  options.sessions = {"s9"};
  EXPECT_ERROR(Frames(toy.recording, options), "s9");
}

// Every window of every rung through the loader, each against its pixels and its counts.
TEST(RecordingSource, BatchesAreOrderedBySessionAndHoldTheirWindows) {
  const Toy toy;
  SCOPED_TRACE(toy.seed);
  const Windows windows(toy.recording, {.stimulus = {.field = "stim", .lags = 4}});
  for (const std::string& rung : rungs_without_store()) {
    SCOPED_TRACE(rung);
    const RecordingSource source(windows, Frames(toy.recording, options_for(rung)), {.batch = 32});
    const SessionOrder order(source.first(), {.global_batch = 32, .seed = toy.seed});
    Loader<RecordingSource, SessionOrder> loader(source, order,
                                                 {.threads = 2, .prefetch = source.prefetch(2)});
    std::vector<int> seen(windows.size());
    for (int epoch = 0; epoch < 2; ++epoch)
      while (const auto batch = loader.next()) {
        ASSERT_EQ(batch->stimulus_shape, (Shape{batch->size(), 4, kToyHeight, kToyWidth}));
        uint32_t last = 0;
        const std::byte* frame = batch->stimulus;
        for (const uint64_t window : batch->windows) {
          ++seen[window];
          const Window at = windows.at(window);
          ASSERT_GE(at.session, last);
          last = at.session;
          for (uint64_t lag = 0; lag < 4; ++lag) {
            const auto expected =
                expected_frame(batch->stimulus_dtype, at.session, at.segment, at.t - lag);
            ASSERT_EQ(std::memcmp(frame, expected.data(), expected.size()), 0);
            frame += expected.size();
          }
        }
        ASSERT_EQ(uint64_t(batch->ptr.back()), batch->size());
      }
    for (const int times : seen) ASSERT_EQ(times, 2);
  }
}

TEST(RecordingSource, BuffersAreUsedAgainAndComeFromTheHook) {
  const Toy toy;
  const Windows windows(toy.recording, {.stimulus = {.field = "stim", .lags = 4}});
  uint64_t allocated = 0;
  const RecordingSource source(windows, Frames(toy.recording, options_for("disk:u8@device")),
                               {.batch = 16, .allocate = [&](uint64_t bytes) {
                                  ++allocated;
                                  EXPECT_EQ(bytes, 16 * 4 * kToyPixels);
                                  return std::shared_ptr<std::byte>(
                                      static_cast<std::byte*>(std::malloc(bytes)), std::free);
                                }});
  Loader<RecordingSource, SessionOrder> loader(
      source, SessionOrder(source.first(), {.global_batch = 16}), {.threads = 0, .prefetch = 1});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(loader.next());
  EXPECT_LE(allocated, 2);
  EXPECT_EQ(source.prefetch(2, 3 * source.batch_bytes()), 3);
  EXPECT_EQ(source.prefetch(2, 0), 1);
}

TEST(RecordingSource, ASelectionIsVisitedAlone) {
  const Toy toy;
  const Windows windows(toy.recording, {.stimulus = {.field = "stim", .lags = 4}});
  const RecordingSource all(windows, Frames(toy.recording, options_for("disk:u8")));
  const auto chosen = fixed_windows(all.first(), 50);
  const RecordingSource source(windows, all.frames(), {.batch = 7, .selection = chosen});
  Loader loader(source, {.order = {.global_batch = 7, .shuffled = false}});
  std::vector<uint64_t> seen;
  while (const auto batch = loader.next())
    seen.insert(seen.end(), batch->windows.begin(), batch->windows.end());
  EXPECT_EQ(seen, chosen);
  EXPECT_EQ(source.first().back(), chosen.size());
}

TEST(Frames, ResidentRowsAreWhereTheyAreSaidToBe) {
  const Toy toy;
  const Frames frames(toy.recording, options_for("device:resident"));
  std::vector<std::byte> movie(frames.resident_rows() * kToyPixels);
  for (uint32_t s = 0; s < 3; ++s)
    for (uint32_t g = 0; g < toy.recording.sessions()[s].segments.size(); ++g)
      frames.read_rows(s, g, 0, toy.recording.sessions()[s].segments[g].frames,
                       movie.data() + frames.resident_row(s, g, 0) * kToyPixels);
  const Windows windows(toy.recording, {.stimulus = {.field = "stim", .lags = 4}});
  const RecordingSource source(windows, frames, {.batch = 16});
  RecordingBatch batch;
  const std::vector<uint64_t> places = {windows.size() - 1, 3, 77};
  source.fill(places, batch);
  EXPECT_EQ(batch.stimulus, nullptr);
  ASSERT_EQ(batch.resident.size(), 3);
  for (size_t b = 0; b < 3; ++b) {
    const Window at = windows.at(batch.windows[b]);
    const auto expected = expected_frame(DType::u8, at.session, at.segment, at.t - 2);
    EXPECT_EQ(std::memcmp(movie.data() + uint64_t(batch.resident[b] - 2) * kToyPixels,
                          expected.data(), expected.size()),
              0);
  }
}

}  // namespace
}  // namespace lacuna
