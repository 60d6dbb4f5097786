#include "lacuna/plan/recording_plan.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

constexpr double kGB = 1e9;

// A server with one GPU; every figure is given, none is measured.
struct Situation {
  Machine machine;
  RecordingSizes sizes;
  RecordingCosts costs;
  std::vector<PlanDisk> disks;
  RecordingPlanSettings settings;

  // sessions of equal length, u8_gb in all
  Situation(double u8_gb, double memory_gb, uint64_t sessions = 30) {
    sizes.pixels = 51 * 51;
    sizes.frame = {51, 51};
    sizes.lags = 33;
    const auto frames = uint64_t(u8_gb * kGB / double(sizes.pixels) / double(sessions));
    sizes.session_frames.assign(sessions, frames);
    sizes.windows = sizes.frames();
    machine.memory = {memory_gb * kGB, "given"};
    machine.disk_write = {1.5 * kGB, "given"};
    machine.disk_read = {3 * kGB, "given"};
    machine.cores = {32, "given"};
    machine.memory_copy = {10 * kGB, "given"};
    machine.gpu = Gpu{"a GPU", {80 * kGB, "given"}, {25 * kGB, "given"}, {2000 * kGB, "given"}};
    costs = {.copy = 16 * kGB,
             .read = 12 * kGB,
             .cast = 3 * kGB,
             .unpack = 8 * kGB,
             .pack = 1 * kGB,
             .ratio = 4,
             .cold_read = 1 * kGB,
             .seconds = 0,
             .threads = 2};
    disks = {{"/small", 258 * kGB}, {"/big", 1400 * kGB}};
  }
  RecordingPlan plan() const { return plan_recording(sizes, costs, machine, disks, settings); }
  std::string pick() const {
    const RecordingPlan plan = this->plan();
    return plan.pick ? name(*plan.pick) : "none: " + plan.reason;
  }
};

bool has_note(const RecordingPlan& plan, const std::string& words) {
  for (const std::string& note : plan.notes)
    if (note.find(words) != note.npos) return true;
  return false;
}

// The lab of docs/recordings.md: 226 GB of movies, 504 GB of memory, 258 GB and 1.4 TB of disk.
TEST(RecordingPlan, WorksNow) {
  const Situation lab(226, 504);
  const RecordingPlan plan = lab.plan();
  EXPECT_EQ(lab.pick(), "disk:u8@device") << plan.reason;
  EXPECT_NE(plan.reason.find("nothing is written"), plan.reason.npos) << plan.reason;
  // bf16 in memory: 452 x 1.2 > 504.
  const RecordingRungPlan& bf16 = plan.of("ram:bf16");
  EXPECT_NEAR(bf16.memory_bytes / kGB, 452, 3);
  EXPECT_FALSE(bf16.fits());
  EXPECT_FALSE(plan.of("ram:f32").fits());
  EXPECT_TRUE(plan.of("ram:u8@device").fits());
  EXPECT_FALSE(plan.of("device:resident").fits());
  // A u8 copy on the small disk: 271 > 258; on the other one it fits.
  EXPECT_TRUE(has_note(plan, "needs 271 GB with the margin, but only 258 GB free in /small"));
  EXPECT_TRUE(has_note(plan, "needs 271 GB with the margin, and 1.40 TB free in /big"));
  EXPECT_FALSE(bf16.lost.empty());
  EXPECT_TRUE(plan.of("disk:u8@device").lost.empty());
  EXPECT_EQ(plan.of("disk:bf16").folder, "/big");
  EXPECT_EQ(plan.of("disk:chunks@device").folder, "/small");
}

TEST(RecordingPlan, ASmallMovieLiesOnTheGpu) {
  EXPECT_EQ(Situation(40, 504).pick(), "device:resident");
  Situation without(40, 504);
  without.machine.gpu.reset();
  EXPECT_NE(without.pick(), "device:resident");
  EXPECT_EQ(without.plan().of("device:resident").lacks[0], "needs a GPU, and there is none");
}

TEST(RecordingPlan, TransformsAndEnoughMemory) {
  Situation lab(60, 504);
  lab.settings.transforms = FrameTransforms::whole;
  const RecordingPlan plan = lab.plan();
  EXPECT_TRUE(lab.pick() == "disk:f32" || lab.pick() == "ram:f32") << lab.pick();
  EXPECT_EQ(plan.of(lab.pick()).cold_seconds, 0);  // all of it stays in memory
  EXPECT_EQ(plan.of(lab.pick()).folder, "/big");   // 240 x 1.2 = 288 > 258
  EXPECT_TRUE(has_note(plan, "a rung of bytes cannot give them exactly"));
  EXPECT_FALSE(plan.of("disk:u8@device").fits());
}

TEST(RecordingPlan, TransformsAndTightMemory) {
  Situation lab(226, 128);
  lab.settings.transforms = FrameTransforms::whole;
  EXPECT_EQ(lab.pick(), "disk:f32");  // 904 x 1.2 = 1,085 GB, on the large disk
  EXPECT_TRUE(has_note(lab.plan(), "disk:bf16 would take"));
  // The fallback: where that disk is not there, nothing exact fits, and the plan says so.
  lab.disks.pop_back();
  const std::string reason = lab.plan().reason;
  EXPECT_FALSE(lab.plan().pick);
  // 258 GB hold 215 with the margin: of 904 GB as f32 a quarter is too much, a fifth is not.
  for (const char* words : {"a disk with 1.08 TB free", "the first 7 of 30 sessions, 211 GB",
                            "one frame in 5, 181 GB", "frames of 24x24, 200 GB (--resize 24x24)"})
    EXPECT_NE(reason.find(words), reason.npos) << words << " is missing: " << reason;
  EXPECT_EQ(reason.find("batch"), reason.npos) << reason;
  lab.disks[0].free = 600 * kGB;  // bf16 fits there: 452 x 1.2 = 542
  EXPECT_NE(lab.plan().reason.find("what fits: disk:bf16, rounded to bf16"), reason.npos)
      << lab.plan().reason;
}

TEST(RecordingPlan, WhereBatchesAloneAreTooLargeLessOfThemIsTheRemedy) {
  const Situation lab(226, 0.1);
  const RecordingPlan plan = lab.plan();
  EXPECT_FALSE(plan.pick);
  EXPECT_NE(plan.reason.find("a smaller --batch, fewer --ranks or --lags"), plan.reason.npos)
      << plan.reason;
  EXPECT_EQ(plan.reason.find("--step"), plan.reason.npos) << plan.reason;
}

TEST(RecordingPlan, ManySessionsUnevenlyUsed) {
  Situation lab(226, 64);
  lab.settings.shares.assign(30, 1.0);
  for (size_t s = 0; s < 5; ++s) lab.settings.shares[s] = 40;  // five are drawn for 89%
  EXPECT_EQ(lab.pick(), "tiered@device");
  const RecordingPlan plan = lab.plan();
  EXPECT_LE(plan.of("tiered@device").memory_bytes * 1.2, 64 * kGB * 1.0001);
  EXPECT_LT(plan.of("tiered@device").cold_seconds, 0.3 * plan.of("disk:u8@device").cold_seconds);
  EXPECT_FALSE(plan.of("ram:u8@device").fits());
}

TEST(RecordingPlan, ExtremePressure) {
  Situation lab(226, 16);
  lab.disks = {{"/small", 80 * kGB}};
  lab.costs.cold_read = 0.2 * kGB;
  EXPECT_EQ(lab.pick(), "disk:chunks@device");  // 57 GB, a quarter of the reads
  // The fallback: chunks do not fit either, and the recording is read where it lies.
  lab.disks = {{"/small", 60 * kGB}};
  EXPECT_EQ(lab.pick(), "disk:u8@device");
  EXPECT_TRUE(has_note(lab.plan(), "disk:chunks@device: needs 56.5 GB of disk"));
}

// What preparing and loading cost, in epochs of what they save against reading the recording as it
// lies.
TEST(RecordingPlan, PreparingPaysBackOrNever) {
  Situation lab(226, 16);
  lab.disks = {{"/small", 80 * kGB}};
  lab.costs.cold_read = 0.2 * kGB;
  const RecordingPlan plan = lab.plan();
  const RecordingRungPlan &own = plan.of("disk:u8@device"), &chunks = plan.of("disk:chunks@device");
  EXPECT_FALSE(own.pays_back);
  ASSERT_TRUE(chunks.pays_back);
  EXPECT_NEAR(*chunks.pays_back,
              chunks.prepare_seconds / (own.epoch_seconds - chunks.epoch_seconds), 1e-9);
  EXPECT_LT(*chunks.pays_back, 10);             // epochs: it is picked for ten
  EXPECT_FALSE(plan.of("disk:f32").pays_back);  // four times the bytes to read: never
  EXPECT_EQ(to_json(plan)["rungs"][0].contains("pays_back_epochs"), true);
}

TEST(RecordingPlan, WhatIsLostIsSaidOfEveryRungThatRounds) {
  Situation lab(40, 504);
  EXPECT_TRUE(has_note(lab.plan(), "ram:bf16 would take"));
  EXPECT_TRUE(has_note(lab.plan(), "disk:bf16 would take"));
  EXPECT_TRUE(has_note(lab.plan(), "all 256 grey levels stay distinct"));
  EXPECT_FALSE(has_note(lab.plan(), "ram:u8"));
}

// A column that weighs windows is kept by every rank.
TEST(RecordingPlan, TheColumnOfWeightsIsCounted) {
  Situation lab(40, 504);
  lab.settings.ranks = 2;
  const double without = lab.plan().of("disk:u8@device").memory_bytes;
  lab.settings.is_weighed = true;
  EXPECT_NEAR(lab.plan().of("disk:u8@device").memory_bytes - without,
              2 * 4 * double(lab.sizes.windows), 1);
}

// Frames lie once on a host, batches once a rank.
TEST(RecordingPlan, RanksShareTheFrames) {
  Situation lab(40, 504);
  const double alone = lab.plan().of("ram:u8@device").memory_bytes;
  lab.settings.ranks = 4;
  lab.settings.batch = 1024;
  const double four = lab.plan().of("ram:u8@device").memory_bytes;
  EXPECT_GT(four, alone);
  EXPECT_LT(four, alone + 3 * kGB);  // and far from four movies of 40 GB
}

TEST(RecordingPlan, WhatCannotBePlannedIsRefused) {
  Situation lab(40, 504);
  lab.settings.batch = 0;
  EXPECT_ERROR(lab.plan(), "cannot be planned");
  EXPECT_ERROR(frame_transforms_from_names({"magic"}), "no transform 'magic'");
  EXPECT_EQ(frame_transforms_from_names({"crop", "whiten"}), FrameTransforms::whole);
  EXPECT_EQ(frame_transforms_from_names({"crop"}), FrameTransforms::window);
}

}  // namespace
}  // namespace lacuna
