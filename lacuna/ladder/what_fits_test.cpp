#include "lacuna/ladder/what_fits.h"

#include <gtest/gtest.h>

#include "lacuna/recording/testing.h"

namespace lacuna {
namespace {

// Four sessions of 100 frames of 10 x 20 noise: 20,000 bytes each as u8.
Recording write_noise(const fs::path& path) {
  RecordingWriter writer(path, {});
  Random random(1);
  for (int s = 0; s < 4; ++s) {
    std::vector<uint8_t> rows(100 * 200);
    for (uint8_t& pixel : rows) pixel = uint8_t(random.next() >> 56);
    writer.begin_session({.name = "s" + std::to_string(s), .rate = 120, .units = {"u"}});
    writer.begin_segment("noise");
    writer.add_field("stim", FieldRole::stimulus, Array::from(std::move(rows), {100, 10, 20}));
  }
  return writer.commit({});
}

struct WhatFits : ::testing::Test {
  TemporaryDirectory folder;
  Recording recording = write_noise(folder / "rec");

  std::string words(const char* rung, uint64_t room,
                    const std::vector<std::string>& sessions = {}) const {
    return what_fits(recording,
                     {.rung = recording_rung_from_name(rung), .sessions = sessions, .room = room});
  }
};

bool says(const std::string& words, const std::string& part) {
  return words.find(part) != words.npos;
}

// 80,000 pixels are 320 kB as f32.
TEST_F(WhatFits, RungsSessionsRateAndResolutionWithNumbers) {
  const std::string tight = words("ram:f32", 170'000);
  for (const char* part :
       {"disk:u8 holds no frames in memory", "ram:u8 takes 80.0 kB", "ram:bf16 takes 160 kB",
        "the first 2 of 4 sessions, 160 kB", "one frame in 2, 160 kB", "--step 2",
        "frames of 7x14, 157 kB (--resize 7x14)", "lacuna plan"})
    EXPECT_TRUE(says(tight, part)) << part << " is missing: " << tight;
  EXPECT_FALSE(says(tight, "tiered")) << tight;  // all of them fit as u8
  const std::string less = words("ram:f32", 50'000);
  EXPECT_FALSE(says(less, "ram:u8") || says(less, "ram:bf16")) << less;
  EXPECT_TRUE(says(less, "tiered with 50.0 kB")) << less;
  EXPECT_TRUE(says(less, "one frame in 7, 45.7 kB")) << less;
  EXPECT_FALSE(says(less, "of 4 sessions")) << less;  // one is 80 kB as f32
}

TEST_F(WhatFits, OnADiskTheRecordingItselfNeedsNothing) {
  const std::string words = this->words("disk:f32", 170'000);
  EXPECT_TRUE(says(words, "disk:u8 reads the recording itself and writes nothing")) << words;
  EXPECT_TRUE(says(words, "disk:bf16 takes 160 kB")) << words;
  EXPECT_FALSE(says(words, "tiered") || says(words, "ram:")) << words;
}

TEST_F(WhatFits, OnlySessionsThatAreReadCount) {
  EXPECT_TRUE(says(words("ram:f32", 90'000, {"s1", "s3"}), "the first 1 of 2 sessions, 80.0 kB"));
}

TEST_F(WhatFits, NoRoomIsNoPromise) {
  const std::string words = this->words("ram:f32", 0);
  EXPECT_TRUE(says(words, "disk:u8")) << words;
  EXPECT_FALSE(says(words, "sessions") || says(words, "--step") || says(words, "--resize"))
      << words;
}

}  // namespace
}  // namespace lacuna
