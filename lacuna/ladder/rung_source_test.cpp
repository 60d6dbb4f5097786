#include "lacuna/ladder/rung_source.h"

#include <gtest/gtest.h>

#include <cstring>

#include "lacuna/graph/shuffle_graph.h"
#include "lacuna/load/loader.h"
#include "lacuna/masks/prepare_masks.h"
#include "lacuna/masks/testing.h"
#include "lacuna/ops/masks/plain_masks.h"

namespace lacuna {
namespace {

constexpr uint64_t kBatch = 7;

// A screen with a store for every disk rung.
class Ladder {
 public:
  explicit Ladder(uint64_t samples = 60, GraphSize size = GraphSize::tiny)
      : screens_(samples, size), screen_(screens_.write("screen", samples)) {
    for (const Rung rung : kScreenRungs)
      if (is_stored(rung)) prepare_masks(screen_, mask_form(rung), store(rung), {});
  }

  const Screen& screen() const { return screen_; }
  uint64_t seed() const { return screens_.seed; }
  fs::path store(Rung rung) const { return screens_.directory / ("store-" + name(rung)); }
  RungSource source(Rung rung) const {
    return RungSource(screen_, RungMasks(screen_, screen_.graph(), {rung, store(rung)}), kBatch);
  }
  // The record of a sample, taken from the edges one by one.
  std::vector<uint8_t> expected(uint64_t sample) const {
    std::vector<uint32_t> removed;
    RemovedReader(screen_.samples()).read(sample, removed);
    return plain_.record(removed, layout_);
  }

 private:
  testing::StoreScreens screens_;
  Screen screen_;
  MaskLayout layout_{RemovalRules(screen_.graph()), MaskForm::u8};
  PlainMasks plain_{screen_.graph()};
};

void expect_same_masks(const Ladder& ladder) {
  SCOPED_TRACE(ladder.seed());
  for (const Rung rung : kScreenRungs) {
    if (!loads_masks(rung)) continue;
    SCOPED_TRACE(name(rung));
    const RungSource source = ladder.source(rung);
    Loader loader(source, {.order = {.global_batch = kBatch, .seed = ladder.seed()},
                           .threads = 2,
                           .prefetch = source.masks().prefetch(2)});
    const auto wild_type = source.masks().wild_type();
    uint64_t seen = 0;
    for (int epoch = 0; epoch < 2; ++epoch)  // arenas meet other samples than before
      while (const auto batch = loader.next()) {
        ASSERT_EQ(batch->records().size(), batch->size());
        for (uint64_t b = 0; b < batch->size(); ++b, ++seen) {
          const auto expected = ladder.expected(batch->samples().samples()[b]);
          ASSERT_EQ(std::memcmp(batch->records()[b], expected.data(), expected.size()), 0);
        }
        if (!batch->block()) continue;
        const uint8_t* behind = batch->block() + batch->size() * source.masks().layout().stride();
        ASSERT_EQ(std::memcmp(behind, wild_type.data(), wild_type.size()), 0);
      }
    EXPECT_EQ(seen, 2 * ladder.screen().samples().size());
  }
}

TEST(RungSource, EveryRungGivesTheSameMasks) { expect_same_masks(Ladder()); }
TEST(RungSource, EveryRungGivesTheSameMasksAtYeastSize) {
  expect_same_masks(Ladder(16, GraphSize::yeast));
}

TEST(RungSource, ABatchThatIsKeptNeverChanges) {
  const Ladder ladder;
  for (const Rung rung : kScreenRungs) {
    if (!loads_masks(rung)) continue;
    SCOPED_TRACE(name(rung));
    std::vector<BatchRef<RungBatch>> kept;
    {
      const RungSource source = ladder.source(rung);
      Loader loader(source, {.order = {.global_batch = kBatch}, .threads = 1, .prefetch = 2});
      while (auto batch = loader.next()) kept.push_back(std::move(batch));
    }  // neither loader nor source lives on
    for (const auto& batch : kept)
      for (uint64_t b = 0; b < batch->size(); ++b) {
        const auto expected = ladder.expected(batch->samples().samples()[b]);
        ASSERT_EQ(std::memcmp(batch->records()[b], expected.data(), expected.size()), 0);
      }
  }
}

TEST(RungSource, StoredBytesAreViewsWhereTheyAreRecordsAlready) {
  const Ladder ladder;
  const std::vector<uint64_t> places = {5, 9};
  for (const Rung rung : {Rung::disk_u8, Rung::ram_u8}) {
    const RungSource source = ladder.source(rung);
    RungBatch first, second;
    source.fill(places, first);
    source.fill(places, second);
    EXPECT_EQ(first.records()[0], second.records()[0]) << name(rung);  // one place, no copy
    EXPECT_EQ(first.block(), nullptr);
  }
}

TEST(RungSource, AStoreThatDoesNotFitIsRefused) {
  const Ladder ladder;
  const Screen& screen = ladder.screen();
  const auto open = [&](Rung rung, const fs::path& store) {
    return RungSource(screen, RungMasks(screen, screen.graph(), {rung, store}), kBatch);
  };
  EXPECT_ERROR(open(Rung::disk_u8, ""), "needs a store");
  EXPECT_ERROR(open(Rung::disk_u8, ladder.store(Rung::disk_bits)), "disk:bits");
  EXPECT_ERROR(open(Rung::disk_u8, ladder.store(Rung::kernel)), "prepare");
  const fs::path part = ladder.store(Rung::disk_u8).string() + "-part";
  prepare_masks(ladder.screen(), MaskForm::u8, part, {.samples = {{0, 10}}});
  EXPECT_ERROR(open(Rung::disk_u8, part), "samples 0 to 9");
  const HeteroGraph shuffled = shuffle_graph(screen.graph(), 1);
  EXPECT_ERROR(RungMasks(screen, shuffled, {Rung::disk_u8, ladder.store(Rung::disk_u8)}),
               "other edges");
  EXPECT_NO_THROW(RungMasks(screen, shuffled, {Rung::worker}));
}

}  // namespace
}  // namespace lacuna
