#include "lacuna/masks/prepare_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "lacuna/core/system/stop.h"
#include "lacuna/masks/mask_sizes.h"
#include "lacuna/masks/testing.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

using testing::expect_masks;
using testing::StoreScreens;

class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// Ends the work after the first transaction.
class InterruptingProgress : public Progress {
 public:
  void begin(std::string_view, uint64_t total, std::string_view) override { total_ = total; }
  void advance(uint64_t done) override {
    done_ = done;
    throw Interrupted();
  }
  uint64_t total() const { return total_; }
  uint64_t done() const { return done_; }

 private:
  uint64_t total_ = 0, done_ = 0;
};

TEST(PrepareMasks, GoesOnWhereItWasInterrupted) {
  const StoreScreens f(40'000);  // more than two transactions
  const Screen screen = f.write("screen", 40'000);
  const fs::path path = f.directory / "store";
  InterruptingProgress first, second;
  EXPECT_THROW(prepare_masks(screen, MaskForm::positions, path, {}, first), Interrupted);
  EXPECT_EQ(first.total(), 40'000u);
  EXPECT_ERROR(MaskStore::open(path, screen), "unfinished");
  EXPECT_THROW(prepare_masks(screen, MaskForm::positions, path, {}, second), Interrupted);
  EXPECT_EQ(second.total(), 40'000 - first.done());
  const PrepareResult result = prepare_masks(screen, MaskForm::positions, path, {});
  EXPECT_GT(result.written, 0u);
  EXPECT_EQ(result.written, 40'000 - first.done() - second.done());
  EXPECT_EQ(result.end, 40'000u);
  const MaskStore store = MaskStore::open(path, screen);
  EXPECT_EQ(result.bytes, store.bytes());
  EXPECT_EQ(fs::file_size(path / "data.mdb") + fs::file_size(path / "pages.npy"), store.bytes());
  expect_masks(screen, store, 0, 40'000);
}

// Asks for a stop after the first transaction.
class StoppingProgress : public Progress {
 public:
  void begin(std::string_view, uint64_t, std::string_view) override {}
  void advance(uint64_t done) override {
    done_ = done;
    ask_to_stop();
  }
  uint64_t done() const { return done_; }

 private:
  uint64_t done_ = 0;
};

constexpr uint64_t kNever = uint64_t(1) << 60;  // looks: for a StopAfter that takes a stop back

TEST(PrepareMasks, StopsBetweenTransactions) {
  const StoreScreens f(40'000);  // more than two transactions
  const Screen screen = f.write("screen", 40'000);
  const fs::path path = f.directory / "store";
  StoppingProgress progress;
  std::optional<StopAfter> taken_back(kNever);
  const PrepareResult stopped = prepare_masks(screen, MaskForm::positions, path, {}, progress);
  taken_back.reset();
  EXPECT_TRUE(stopped.is_stopped);
  EXPECT_EQ(stopped.written, progress.done());
  EXPECT_LT(stopped.end, 40'000u);
  EXPECT_ERROR(MaskStore::open(path, screen), "unfinished");
  const PrepareResult rest = prepare_masks(screen, MaskForm::positions, path, {});
  EXPECT_FALSE(rest.is_stopped);
  EXPECT_EQ(rest.written, 40'000 - stopped.written);
  expect_masks(screen, MaskStore::open(path, screen), 0, 40'000);
}

// Asks for a stop when the last sample is written.
class LateProgress : public Progress {
 public:
  void begin(std::string_view, uint64_t, std::string_view) override {}
  void advance(uint64_t) override {}
  void end() override { ask_to_stop(); }
};

TEST(PrepareMasks, StopsWhileChecksumsAreTaken) {
  const StoreScreens f(300);
  const Screen screen = f.write("screen", 300);
  for (const MaskForm form : {MaskForm::bf16, MaskForm::positions}) {
    const fs::path path = f.directory / fmt::format("store-{}", name(form));
    LateProgress progress;
    std::optional<StopAfter> taken_back(kNever);
    const PrepareResult stopped = prepare_masks(screen, form, path, {}, progress);
    taken_back.reset();
    EXPECT_TRUE(stopped.is_stopped);
    EXPECT_EQ(stopped.written, 300u);
    EXPECT_ERROR(MaskStore::open(path, screen), "unfinished");
    const PrepareResult rest = prepare_masks(screen, form, path, {});
    EXPECT_FALSE(rest.is_stopped);
    EXPECT_EQ(rest.written, 0u);
    expect_masks(screen, MaskStore::open(path, screen), 0, 300);
  }
}

TEST(PrepareMasks, AddsSamplesThatTheScreenHasGained) {
  const StoreScreens f;
  SCOPED_TRACE(f.seed);
  const fs::path path = f.directory / "store";
  for (const MaskForm form : {MaskForm::u8, MaskForm::positions}) {
    const std::string stem(name(form));
    const Screen first = f.write(stem + "1", 120), second = f.write(stem + "2", 300);
    EXPECT_EQ(prepare_masks(first, form, path, {.again = true}).written, 120u);
    const PrepareResult none = prepare_masks(first, form, path, {});
    EXPECT_EQ(none.written, 0u);
    EXPECT_EQ(none.end, 120u);
    EXPECT_EQ(prepare_masks(second, form, path, {}).written, 180u);
    expect_masks(second, MaskStore::open(path, second), 0, 300);
    // The first screen has fewer samples than the store now.
    EXPECT_ERROR(prepare_masks(first, form, path, {}), "made for other samples");
  }
}

TEST(PrepareMasks, StopsWhenTheDiskLacksRoom) {
  const StoreScreens f(200, GraphSize::small);
  const Screen screen = f.write("screen", 200);
  const fs::path path = f.directory / "store";
  const RemovalRules rules(screen.graph());
  const uint64_t each = stored_bytes_per_sample(screen.samples(), rules, MaskForm::u8);
  EXPECT_NEAR(double(each), double(MaskLayout(rules, MaskForm::u8).stride()), 4096 + 64 + 24);
  const auto needed = uint64_t(1.2 * double(200 * each));
  const std::string words = error_of([&] {
    prepare_masks(screen, MaskForm::u8, path, {.free_bytes = [&] { return needed - 1; }});
  });
  EXPECT_NE(words.find("needed for 200 samples (with 20% margin)"), words.npos) << words;
  EXPECT_NE(words.find("disk:bits needs"), words.npos) << words;
  EXPECT_NE(words.find("rung kernel needs nothing"), words.npos) << words;
  EXPECT_FALSE(fs::exists(path));
  const PrepareResult result =
      prepare_masks(screen, MaskForm::u8, path, {.free_bytes = [&] { return needed; }});
  EXPECT_LE(result.bytes, needed);
  EXPECT_GE(result.bytes, 200 * MaskLayout(rules, MaskForm::u8).stride());
  // What is there needs no room: all of it when nothing is to do, some when samples are added.
  prepare_masks(screen, MaskForm::u8, path, {.free_bytes = [] { return 0; }});
  prepare_masks(screen, MaskForm::u8, path,
                {.again = true, .free_bytes = [&] { return needed / 2; }});
}

TEST(PrepareMasks, LeavesWhatIsNotItsOwn) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 50), other = f.write("other", 50);
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, other.path(), {}), "lacuna.screen");
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, other.path(), {.again = true}), "lacuna.screen");
  EXPECT_EQ(Screen::open(other.path()).samples().size(), 50u);
  fs::create_directory(f.directory / "photos");
  write_file(f.directory / "photos" / "cat", "meow");
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, f.directory / "photos", {.again = true}), "cat");
  write_file(f.directory / "file", "text");
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, f.directory / "file", {}), "a file is there");

  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::u8, path, {.samples = {{10, 20}}});
  EXPECT_ERROR(prepare_masks(screen, MaskForm::bits, path, {.samples = {{10, 20}}}),
               "holds masks of rung disk:u8");
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, path, {}), "say --samples 10:END");
  EXPECT_EQ(prepare_masks(screen, MaskForm::u8, path, {.samples = {{10, 30}}}).written, 10u);
  EXPECT_EQ(prepare_masks(screen, MaskForm::u8, path, {.samples = {{10, 15}}}).end, 30u);
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, path, {.samples = {{10, 51}}}), "has 50");
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, path, {.samples = {{10, 10}}}), "10:10");
  EXPECT_EQ(prepare_masks(screen, MaskForm::bits, path, {.again = true}).written, 50u);

  const MaskStore reader = MaskStore::open(path, screen);
  EXPECT_ERROR(prepare_masks(screen, MaskForm::bits, path, {.again = true}), "in use");
  expect_masks(screen, reader, 0, 50);
}

// Whatever way a start afresh is cut off, old masks are not taken for new ones.
TEST(PrepareMasks, AgainNeverKeepsOldMasks) {
  const StoreScreens f;
  SCOPED_TRACE(f.seed);
  auto reversed = testing::first_samples(300);
  std::reverse(reversed.begin(), reversed.end());
  const Screen one = f.write("one", 300);
  const Screen two = f.write("two", f.graph, take_samples(f.all, reversed));
  const fs::path path = f.directory / "store";
  prepare_masks(one, MaskForm::bits, path, {});
  DirectoryWriter::reopen(path, Json());  // the first step of `again`
  EXPECT_EQ(prepare_masks(two, MaskForm::bits, path, {}).written, 300u);
  expect_masks(two, MaskStore::open(path, two), 0, 300);
  // Unfinished masks of one screen are not gone on with for another.
  DirectoryWriter::reopen(
      path,
      MaskStoreContents::of(two, RemovalRules(two.graph()), MaskForm::bits, 0, 300).to_json());
  EXPECT_ERROR(prepare_masks(one, MaskForm::bits, path, {}), "--again");
  prepare_masks(one, MaskForm::bits, path, {.again = true});
  expect_masks(one, MaskStore::open(path, one), 0, 300);
}

// Between looking and locking another program puts a store of another kind there.
TEST(PrepareMasks, AStoreThatChangedMeanwhileIsNotAddedTo) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 60);
  const fs::path path = f.directory / "store";
  const auto other = [&](MaskForm form, uint64_t end) {
    return [=, &screen] {
      prepare_masks(screen, form, path, {.samples = {{0, end}}, .again = true});
      return UINT64_MAX;
    };
  };
  prepare_masks(screen, MaskForm::u8, path, {.samples = {{0, 10}}});
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, path, {.free_bytes = other(MaskForm::bits, 10)}),
               "changed by another program; run this again");
  expect_masks(screen, MaskStore::open(path, screen), 0, 10);
  EXPECT_EQ(MaskStore::open(path, screen).form(), MaskForm::bits);
}

TEST(PrepareMasks, AgainLeavesAloneWhatSomebodyElsePutThere) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 20);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::u8, path, {.samples = {{0, 10}}});
  write_file(path / "notes.txt", "why these masks");
  EXPECT_ERROR(prepare_masks(screen, MaskForm::bits, path, {.again = true}),
               "holds notes.txt, which is not part of a lacuna.store");
  EXPECT_EQ(MaskStore::open(path, screen).end(), 10u);                    // nothing was touched
  EXPECT_EQ(prepare_masks(screen, MaskForm::u8, path, {}).written, 10u);  // adding harms nothing
  EXPECT_EQ(read_text(path / "notes.txt"), "why these masks");
  DirectoryWriter::reopen(path, Json());
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, path, {}), "holds notes.txt");
  fs::rename(path / "notes.txt", f.directory / "notes.txt");
  EXPECT_EQ(prepare_masks(screen, MaskForm::bits, path, {}).written, 20u);
}

TEST(PrepareMasks, BytesOnDisk) {
  const StoreScreens f(60, GraphSize::small);
  const Screen screen = f.write("screen", 60);
  const auto bytes = [&](MaskForm form) {
    return double(prepare_masks(screen, form, f.directory / disk_rung(form), {}).bytes);
  };
  const double u8 = bytes(MaskForm::u8);
  EXPECT_NEAR(bytes(MaskForm::bf16) / u8, 2, 0.1);
  EXPECT_LT(bytes(MaskForm::bits), u8 / 5);  // pages of 4 KB: exact at yeast size
  EXPECT_LT(bytes(MaskForm::positions), u8 / 5);
}

}  // namespace
}  // namespace lacuna
