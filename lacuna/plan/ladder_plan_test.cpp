#include "lacuna/plan/ladder_plan.h"

#include <gmock/gmock.h>

#include "lacuna/core/testing.h"
#include "lacuna/masks/mask_store.h"
#include "lacuna/plan/ladder_words.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kYeast = 332'313, kTwentyMillion = 20'000'000;

// Yeast size, about; made up, so that the figures below can be counted by hand.
MaskSizes yeast_sizes() {
  MaskSizes sizes;
  const auto size = [](double record) {
    return FormSize{record, lmdb_bytes_per_value(sizeof(MaskHeader) + uint64_t(record))};
  };
  sizes.u8 = size(2'551'232);
  sizes.bits = size(319'488);
  sizes.bf16 = size(5'102'080);
  sizes.positions = size(5'000);
  sizes.table = 20'000'000;
  sizes.removed = 3;
  sizes.labels = 1;
  return sizes;
}

StepCosts quiet_costs() {
  StepCosts costs;
  costs.indices = 3e-6;
  costs.handed = 5e-6;
  costs.update = 15e-6;
  costs.first = 500e-6;
  costs.look_up = 0.3e-6;
  costs.u8 = {200e-6, 250e-6};
  costs.bits = {150e-6, 40e-6};
  costs.bf16 = {400e-6, 500e-6};
  costs.positions = {100e-6, 50e-6};
  costs.threads = 2;
  return costs;
}

Machine machine_with(double memory, double disk) {
  Machine machine;
  machine.memory = {memory, "test"};
  machine.disk_free = {disk, "test"};
  machine.disk_write = {500e6, "test"};
  machine.disk_read = {1e9, "test"};
  machine.cores = {2, "test"};
  return machine;
}

Gpu large_gpu() { return {"Test GPU", {140e9, "test"}, {50e9, "assumed: test"}, {3e12, "test"}}; }

LadderPlan plan_on(const Machine& machine, uint64_t samples = kYeast, uint64_t epochs = 10) {
  return plan_ladder(yeast_sizes(), quiet_costs(), machine,
                     {.samples = samples, .epochs = epochs, .batch = 28, .prefetch = 4});
}

TEST(LadderPlan, EveryRungOnceInOrder) {
  const LadderPlan plan = plan_on(machine_with(16e9, 250e9));
  ASSERT_EQ(plan.rungs.size(), kScreenRungs.size());
  for (size_t i = 0; i < plan.rungs.size(); ++i) EXPECT_EQ(plan.rungs[i].rung, kScreenRungs[i]);
}

// The figures of a plan for 332,313 samples, counted here by hand.
TEST(LadderPlan, BytesByHand) {
  const LadderPlan plan = plan_on(machine_with(16e9, 250e9));
  const double batch = 28 * 2'551'232.0, indices = 28 * (12 + 4 + 4) + 4;
  // 2,551,232 + 48 + 16 bytes are 623 pages; 185 entries of 22 bytes share a leaf.
  EXPECT_NEAR(plan.of(Rung::disk_u8).disk_bytes, kYeast * (623 * 4096 + 4096 / 185.0), 1);
  EXPECT_NEAR(plan.of(Rung::disk_positions).disk_bytes, kYeast * (2 * 4096 + 4096 / 185.0), 1);
  EXPECT_EQ(plan.of(Rung::worker).disk_bytes, 0);
  // disk:u8 and ram:u8: a training step's copy, and that of a prediction of two batches' worth.
  EXPECT_EQ(plan.of(Rung::disk_u8).memory_bytes, 6 * indices + 3 * batch);
  EXPECT_EQ(plan.of(Rung::disk_bits).memory_bytes, 6 * indices + 12 * batch);
  EXPECT_EQ(plan.of(Rung::ram_u8).memory_bytes, 6 * indices + 3 * batch + kYeast * 2'551'232.0);
  EXPECT_EQ(plan.of(Rung::ram_bits).memory_bytes, 6 * indices + 12 * batch + kYeast * 319'488.0);
  EXPECT_EQ(plan.of(Rung::worker).memory_bytes, 6 * indices + 12 * batch + 20e6);
  EXPECT_EQ(plan.of(Rung::device).memory_bytes, 6 * indices + 2 * batch + 20e6);
  EXPECT_EQ(plan.of(Rung::kernel).memory_bytes, 6 * indices);
  for (const RungPlan& rung : plan.rungs) {
    EXPECT_EQ(rung.moved_bytes, indices + (loads_masks(rung.rung) ? batch : 0)) << name(rung.rung);
    EXPECT_EQ(rung.device_bytes, 0);
  }
  EXPECT_EQ(plan.of(Rung::disk_bits).read_bytes, 28 * 319'488.0);
}

TEST(LadderPlan, SecondsByHand) {
  const LadderPlan plan = plan_on(machine_with(16e9, 250e9));
  const double batches = 11'869;  // of 28, the last one shorter
  EXPECT_NEAR(plan.of(Rung::kernel).epoch_seconds, batches * 3e-6, 1e-9);
  EXPECT_NEAR(plan.of(Rung::worker).batch_seconds, 5e-6 + 28 * 15e-6, 1e-12);
  EXPECT_NEAR(plan.of(Rung::disk_u8).batch_seconds, 5e-6 + 28 * 0.3e-6, 1e-12);
  EXPECT_NEAR(plan.of(Rung::disk_bits).batch_seconds, 5e-6 + 28 * 150.3e-6, 1e-12);
  EXPECT_NEAR(plan.of(Rung::ram_u8).batch_seconds, 5e-6, 1e-12);
  // The disk is the slower side for u8, making the records for positions.
  const RungPlan& u8 = plan.of(Rung::disk_u8);
  EXPECT_NEAR(u8.prepare_seconds, u8.disk_bytes / 500e6, 1e-6);
  EXPECT_NEAR(plan.of(Rung::disk_positions).prepare_seconds, kYeast * 50e-6, 1e-6);
  EXPECT_NEAR(u8.total_seconds, u8.prepare_seconds + 10 * u8.epoch_seconds, 1e-6);
  EXPECT_EQ(plan.of(Rung::kernel).prepare_seconds, 0);
}

TEST(LadderPlan, WhatMemoryCannotHoldIsReadFromDiskAgain) {
  // A tenth of the store fits into the cache: nine tenths of every batch come at 1 GB a second.
  const RungPlan any = plan_on(machine_with(1e15, 1e15)).of(Rung::disk_u8);
  const double store = any.disk_bytes, own = any.memory_bytes;
  const RungPlan warm = plan_on(machine_with(2 * store, 1e15)).of(Rung::disk_u8);
  const RungPlan cold = plan_on(machine_with(store / 10 + own, 1e15)).of(Rung::disk_u8);
  EXPECT_EQ(warm.cold_seconds, 0);
  EXPECT_NEAR(cold.cold_seconds, 0.9 * 28 * store / kYeast / 1e9, 1e-5);
  EXPECT_EQ(cold.batch_seconds, warm.batch_seconds);  // which is by definition that of a warm cache
  EXPECT_GT(cold.epoch_seconds, warm.epoch_seconds);
}

TEST(LadderPlan, KernelIsPickedAndExplained) {
  const LadderPlan plan = plan_on(machine_with(16e9, 250e9));
  EXPECT_EQ(plan.pick, Rung::kernel);
  EXPECT_THAT(plan.reason, HasSubstr("nothing to store"));
  EXPECT_THAT(plan.reason, HasSubstr("564 B moved a batch"));
  EXPECT_EQ(plan.masks_pick, Rung::worker);
  EXPECT_THAT(plan.masks_reason, HasSubstr("nothing to prepare"));
}

TEST(LadderPlan, WhatDoesNotFitIsNotedWithBothNumbers) {
  const LadderPlan plan = plan_on(machine_with(16e9, 258e9));
  EXPECT_THAT(plan.notes, Contains("disk:u8 needs 1.02 TB on disk with 20% margin, 258 GB free"));
  EXPECT_THAT(plan.notes,
              Contains("ram:bits needs 128 GB in memory with 20% margin, 16.0 GB free"));
  EXPECT_TRUE(plan.of(Rung::disk_bits).fits());
  EXPECT_THAT(plan.notes, Not(Contains(HasSubstr("disk:bits needs"))));
}

TEST(LadderPlan, TheMarginIsAFifth) {
  const double store = plan_on(machine_with(16e9, 1e15)).of(Rung::disk_bits).disk_bytes;
  EXPECT_TRUE(plan_on(machine_with(16e9, store * 1.2 + 1)).of(Rung::disk_bits).fits());
  EXPECT_FALSE(plan_on(machine_with(16e9, store * 1.2 - 1)).of(Rung::disk_bits).fits());
}

// 300 MB hold no arena of batches; a disk there is, and disk:u8 needs no buffers of the loader's.
TEST(LadderPlan, TinyMemoryAndALargeDisk) {
  const LadderPlan plan = plan_on(machine_with(300e6, 10e12));
  EXPECT_EQ(plan.pick, Rung::kernel);
  EXPECT_THAT(plan.of(Rung::worker).lacks,
              ElementsAre("needs 1.05 GB in memory with 20% margin, 300 MB free"));
  EXPECT_EQ(plan.masks_pick, Rung::device);  // one batch at a time fits
  StepCosts costs = quiet_costs();
  costs.update = 1e-2;  // which takes long here
  const LadderPlan slow = plan_ladder(yeast_sizes(), costs, machine_with(300e6, 10e12),
                                      {.samples = kYeast, .prefetch = 4});
  EXPECT_EQ(slow.masks_pick, Rung::disk_u8);
  EXPECT_THAT(slow.masks_reason, HasSubstr("to prepare once"));
  EXPECT_THAT(slow.masks_reason, HasSubstr("worker needs 1.05 GB in memory"));
  // Not even the copy that a step and validation read.
  EXPECT_FALSE(plan_on(machine_with(250e6, 10e12)).of(Rung::disk_u8).fits());
}

TEST(LadderPlan, NoMemoryForMasksAndNoDisk) {
  const LadderPlan plan = plan_on(machine_with(60e6, 1e6));
  EXPECT_EQ(plan.pick, Rung::kernel);
  EXPECT_EQ(plan.masks_pick, std::nullopt);
  EXPECT_THAT(plan.masks_reason, HasSubstr("no rung that makes masks fits"));
  EXPECT_EQ(plan_on(machine_with(0, 0)).pick, std::nullopt);
}

TEST(LadderPlan, GpuMakesTheMasksItself) {
  Machine machine = machine_with(128e9, 10e12);
  machine.gpu = large_gpu();
  const LadderPlan plan = plan_on(machine);
  EXPECT_EQ(plan.pick, Rung::kernel);
  EXPECT_EQ(plan.masks_pick, Rung::device);
  EXPECT_THAT(plan.masks_reason, HasSubstr("564 B moved a batch instead of 71.4 MB"));
  EXPECT_THAT(plan.masks_reason, HasSubstr("Test GPU"));
  EXPECT_NEAR(plan.of(Rung::worker).later_seconds, (28 * 2'551'232.0 + 564) / 50e9, 1e-9);
  // In memory: two batches on their way to the GPU; disk:u8 also lays out what validation predicts.
  const double batch = 28 * 2'551'232.0;
  EXPECT_EQ(plan.of(Rung::worker).memory_bytes, 6 * 564 + (12 + 2) * batch + 20e6);
  EXPECT_EQ(plan.of(Rung::disk_u8).memory_bytes, 6 * 564 + (2 + 2) * batch);
  // On the GPU: two batches in turn, the recorded step's, and two batches' worth of validation.
  EXPECT_EQ(plan.of(Rung::worker).device_bytes, 5 * (batch + 564));
  EXPECT_EQ(plan.of(Rung::disk_u8).device_bytes, 5 * (batch + 564));
  EXPECT_EQ(plan.of(Rung::device).device_bytes, 3 * batch + 5 * 564 + 20e6);
  EXPECT_EQ(plan.of(Rung::kernel).device_bytes, 5 * 564);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("assumed: test")));
  machine.gpu->memory.value = 80e6;  // too small for one batch of masks
  const LadderPlan small = plan_on(machine);
  EXPECT_EQ(small.pick, Rung::kernel);
  EXPECT_FALSE(small.of(Rung::device).fits());
  EXPECT_THAT(small.notes, Contains(HasSubstr("on the GPU with 20% margin, 80.0 MB free")));
}

// Where making masks is slow and the disk is quick, preparing is worth it from some epoch on.
TEST(LadderPlan, PreparingPaysBackWhenItSaysSo) {
  StepCosts costs = quiet_costs();
  costs.update = 2e-4;
  Machine machine = machine_with(1e12, 4e12);  // holds the store, but not with the margin of ram:u8
  machine.disk_write.value = 5e9;
  const auto plan_for = [&](uint64_t epochs) {
    return plan_ladder(yeast_sizes(), costs, machine, {.samples = kYeast, .epochs = epochs});
  };
  const LadderPlan once = plan_for(1);
  const double epochs = once.of(Rung::disk_u8).pays_back.value();
  ASSERT_GT(epochs, 1);
  const auto total = [&](const LadderPlan& plan, Rung rung) { return plan.of(rung).total_seconds; };
  const LadderPlan before = plan_for(uint64_t(epochs)), after = plan_for(uint64_t(epochs) + 1);
  EXPECT_LE(total(before, Rung::worker), total(before, Rung::disk_u8));
  EXPECT_LT(total(after, Rung::disk_u8), total(after, Rung::worker));
  const LadderPlan many = plan_for(1000);
  EXPECT_EQ(many.pick, Rung::kernel);
  EXPECT_EQ(many.masks_pick, Rung::disk_u8);
  EXPECT_THAT(many.masks_reason, HasSubstr("pays back after"));
  EXPECT_THAT(many.masks_reason, HasSubstr("of 1,000"));
}

TEST(LadderPlan, NeverPaysBackWhereItIsSlower) {
  const LadderPlan plan = plan_on(machine_with(16e9, 250e9));
  EXPECT_EQ(plan.of(Rung::disk_bits).pays_back, std::nullopt);
  EXPECT_EQ(plan.of(Rung::worker).pays_back, std::nullopt);
}

TEST(LadderPlan, TwentyMillion) {
  const LadderPlan plan = plan_on(machine_with(64e9, 60e12), kTwentyMillion);
  EXPECT_NEAR(plan.of(Rung::disk_u8).disk_bytes, 51.04e12, 0.01e12);
  EXPECT_FALSE(plan.of(Rung::disk_u8).fits());
  EXPECT_TRUE(plan.of(Rung::disk_positions).fits());
  EXPECT_EQ(plan.of(Rung::kernel).memory_bytes,
            plan_on(machine_with(64e9, 60e12)).of(Rung::kernel).memory_bytes);
  EXPECT_EQ(plan.pick, Rung::kernel);
}

TEST(LadderPlan, FewerSamplesThanABatch) {
  const LadderPlan plan = plan_on(machine_with(16e9, 250e9), 5);
  EXPECT_EQ(plan.of(Rung::kernel).moved_bytes, 5 * 20 + 4);
  EXPECT_NEAR(plan.of(Rung::kernel).epoch_seconds, 3e-6, 1e-12);
  EXPECT_ERROR(plan_on(machine_with(1, 1), 0), "no samples");
}

TEST(LadderPlan, RanksShareTheMachine) {
  const auto plan_for = [](uint64_t ranks, double memory, double cores = 2) {
    Machine machine = machine_with(memory, 1e15);
    machine.cores.value = cores;
    return plan_ladder(yeast_sizes(), quiet_costs(), machine,
                       {.samples = kYeast, .batch = 28, .prefetch = 4, .ranks = ranks});
  };
  EXPECT_EQ(to_json(plan_for(1, 16e9)), to_json(plan_on(machine_with(16e9, 1e15))));
  // Four ranks of seven samples a batch: as many batches, each with buffers for its slice.
  const LadderPlan four = plan_for(4, 16e9), one = plan_for(1, 16e9);
  const double record = 2'551'232.0, slice = 7 * record, indices = 7 * (12 + 4 + 4) + 4;
  EXPECT_EQ(four.of(Rung::worker).memory_bytes, 6 * indices + 12 * slice + 20e6);
  EXPECT_EQ(four.of(Rung::worker).moved_bytes, indices + slice);
  EXPECT_EQ(four.of(Rung::disk_u8).disk_bytes, one.of(Rung::disk_u8).disk_bytes);
  EXPECT_EQ(four.of(Rung::disk_u8).prepare_seconds, one.of(Rung::disk_u8).prepare_seconds);
  EXPECT_THAT(four.notes, Contains(HasSubstr("4 ranks share memory and disk")));
  EXPECT_EQ(to_json(four)["ranks"], 4);
  // Two threads a rank: eight cores serve all, two make each wait for three others.
  const double alone = 5e-6 + 7 * 15e-6;
  EXPECT_NEAR(plan_for(4, 16e9, 8).of(Rung::worker).batch_seconds, alone, 1e-12);
  EXPECT_NEAR(four.of(Rung::worker).batch_seconds, 4 * alone, 1e-12);
  // What all hold together must fit: the masks of all samples once, batches and tables four times.
  const double held = kYeast * 319'488.0;
  EXPECT_EQ(four.of(Rung::ram_bits).shared_bytes, held);
  const double held_by_four = held + 4 * (four.of(Rung::ram_bits).memory_bytes - held);
  EXPECT_LT(held_by_four, 1.1 * one.of(Rung::ram_bits).memory_bytes);
  EXPECT_TRUE(plan_for(4, held_by_four * 1.2 + 1).of(Rung::ram_bits).fits());
  EXPECT_FALSE(plan_for(4, held_by_four * 1.2 - 1).of(Rung::ram_bits).fits());
  // The disk is one, and all ranks' slices come from it.
  const RungPlan cold = plan_for(4, 4 * four.of(Rung::disk_u8).memory_bytes).of(Rung::disk_u8);
  EXPECT_NEAR(cold.cold_seconds, 28 * cold.disk_bytes / kYeast / 1e9, 1e-9);
  EXPECT_ERROR(plan_for(29, 16e9), "29 ranks");
  EXPECT_ERROR(plan_for(0, 16e9), "0 ranks");
}

TEST(LadderWords, TimesAsPeopleReadThem) {
  EXPECT_EQ(format_milliseconds(0.41e-3), "0.410 ms");
  EXPECT_EQ(format_milliseconds(3.1e-6), "0.00310 ms");
  EXPECT_EQ(format_milliseconds(12.34e-3), "12.3 ms");
  EXPECT_EQ(format_milliseconds(0.512), "512 ms");
  EXPECT_EQ(format_milliseconds(2.5), "2.5 s");
  EXPECT_EQ(format_milliseconds(0), "0 ms");
  EXPECT_EQ(format_seconds(0.35), "0.35 s");
  EXPECT_EQ(format_seconds(0.004), "4.00 ms");
  EXPECT_EQ(format_seconds(0.0000123), "0.0123 ms");
  EXPECT_EQ(format_seconds(200), "3 min 20 s");
  EXPECT_EQ(format_seconds(30 * 86400), "30 days");
}

}  // namespace
}  // namespace lacuna
