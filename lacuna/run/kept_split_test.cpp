#include "lacuna/run/kept_split.h"

#include <gtest/gtest.h>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"
#include "lacuna/store/safetensors.h"
#include "lacuna/store/testing.h"

namespace lacuna {
namespace {

using ARun = Run;  // inside of a test, Run is a function of GoogleTest

Split split_of(std::vector<uint8_t> parts, Json how = {{"command", "lacuna split s --seed 1"}}) {
  return {"random", Array::from(std::move(parts)), std::move(how)};
}

// The first `count` of 30 samples, and a split of theirs.
Screen make_screen(const fs::path& path, uint64_t seed, uint64_t count, const Split& split) {
  std::vector<uint64_t> chosen;
  for (uint64_t s = 0; s < count; ++s) chosen.push_back(s);
  return write_screen(path,
                      {small_graph(1), take_samples(small_samples(seed, 30), chosen), {split}, {}});
}

std::vector<uint8_t> cycle(uint64_t count) {
  std::vector<uint8_t> parts;
  for (uint64_t s = 0; s < count; ++s) parts.push_back(uint8_t(s % 3));
  return parts;
}

TEST(KeptSplit, IsThatOfTheRunWhateverTheScreenHasNow) {
  const TemporaryDirectory folder;
  const ARun run = ARun::create(folder / "run", "");
  const Split split = split_of(cycle(20));
  const Screen screen = make_screen(folder / "a", 1, 20, split);
  EXPECT_FALSE(kept_split(run, screen));
  EXPECT_NO_THROW(check_kept_split(run, screen, split));  // of an older version
  keep_split(run, screen, split);
  ASSERT_TRUE(kept_split(run, screen));
  EXPECT_EQ(kept_split(run, screen)->name, "random");
  EXPECT_EQ(count_moved(*kept_split(run, screen), split), 0u);
  EXPECT_NO_THROW(check_kept_split(run, screen, split));

  // Samples that moved are counted, and the way back is said.
  auto moved = cycle(20);
  std::swap(moved[3], moved[4]);
  moved[19] = 255;
  EXPECT_EQ(count_moved(split, split_of(moved)), 3u);
  EXPECT_ERROR(check_kept_split(run, screen, split_of(moved)),
               "3 of 20 samples are in another part");
  EXPECT_ERROR(check_kept_split(run, screen, split_of(moved)),
               "make it as it was (`lacuna split s --seed 1`)");

  // New samples behind the old ones are no reason to refuse, others in their place are.
  const Split longer = split_of(cycle(30));
  const Screen grown = make_screen(folder / "b", 1, 30, longer);
  ASSERT_TRUE(kept_split(run, grown));
  EXPECT_EQ(kept_split(run, grown)->parts.size(), 20u);
  EXPECT_NO_THROW(check_kept_split(run, grown, longer));
  const Screen other = make_screen(folder / "c", 2, 20, split);
  EXPECT_FALSE(kept_split(run, other));
  EXPECT_ERROR(check_kept_split(run, other, split), "does not begin with the samples that");
  const Split shorter = split_of(cycle(19));
  EXPECT_ERROR(check_kept_split(run, make_screen(folder / "d", 1, 19, shorter), shorter),
               "does not begin with the samples that");

  keep_split(run, grown, longer);
  EXPECT_EQ(kept_split(run, grown)->parts.size(), 30u);
  EXPECT_FALSE(kept_split(run, screen));
}

TEST(KeptSplit, DamageIsAnError) {
  const TemporaryDirectory folder;
  const ARun run = ARun::create(folder / "run", "");
  const Split split = split_of(cycle(20));
  const Screen screen = make_screen(folder / "a", 1, 20, split);
  Safetensors contents;
  const auto write = [&] { write_safetensors(run.path() / "split.safetensors", contents); };
  write();
  EXPECT_ERROR(kept_split(run, screen), "split.safetensors is damaged");
  contents.metadata["lacuna"] = R"({"name": "random", "how": {}, "removed": "00"})";
  write();
  EXPECT_ERROR(kept_split(run, screen), "split.safetensors is damaged");
  contents.arrays["parts"] = Array::from(std::vector<uint8_t>{0, 7});
  write();
  EXPECT_ERROR(kept_split(run, screen), "part 7 at sample 1");
  contents.arrays["parts"] = Array::from<float>({0, 1});
  write();
  EXPECT_THROW(kept_split(run, screen), Error);
}

// The parts that samples were in decide what counts as held out.
TEST(KeptSplit, AFlippedBitIsFoundOrChangesNothing) {
  const TemporaryDirectory folder;
  const ARun run = ARun::create(folder / "run", "");
  const Split split = split_of(cycle(20));
  const Screen screen = make_screen(folder / "a", 1, 20, split);
  keep_split(run, screen, split);
  const fs::path file = run.path() / "split.safetensors";
  const std::string whole = read_text(file);
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (uint64_t byte = 0; byte < whole.size(); ++byte) {
    flip(file, byte, unsigned(random.below(8)));
    try {
      const auto kept = kept_split(run, screen);
      EXPECT_TRUE(kept && kept->name == split.name && kept->how == split.how &&
                  count_moved(*kept, split) == 0)
          << "byte " << byte;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("split.safetensors"), std::string::npos);
    }
    write_file(file, whole);
  }
  // One that was kept before there were checksums is read as it is.
  Safetensors old = read_safetensors(file);
  old.metadata.erase("xxh3");
  write_safetensors(file, old);
  EXPECT_TRUE(kept_split(run, screen));
}

}  // namespace
}  // namespace lacuna
