#include "lacuna/store/npz.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// What tests/test_npz.py reads with NumPy. Large enough that buffers are written many times, and in
// turns.
void write_example(const fs::path& path) {
  constexpr uint64_t kRows = 700'001;
  NpzWriter file(path);
  file.add("names", std::vector<std::string>{"YAL001C", "", "\xce\xb1-\xf0\x9f\xa7\xac", "x"});
  const size_t pairs = file.add("pairs", DType::u16, {kRows, 2});
  const size_t numbers = file.add("numbers", DType::f32, {kRows});
  file.add("scalar", Array::from(std::vector<double>{2.5}, {}));
  file.add("nothing", Array::from(std::vector<uint8_t>(), {0, 3}));
  file.add("no_names", std::span<const std::string>());
  for (uint64_t row = 0; row < kRows; ++row) {
    const uint16_t pair[] = {uint16_t(row), uint16_t(row >> 3)};
    file.append<uint16_t>(pairs, pair);
    if (row % 2 == 0) continue;  // the numbers come in twos, but for the last
    const float two[] = {float(row - 1) / 3, float(row) / 3};
    file.append<float>(numbers, two);
  }
  const float last[] = {-1.f};
  file.append<float>(numbers, last);
  file.close();
}

TEST(Npz, WritesTheSameBytesAgainAndNothingBeside) {
  const TemporaryDirectory temporary;
  const char* given = std::getenv("LACUNA_NPZ_FOLDER");
  const fs::path folder = given ? fs::path(given) : temporary.path();
  write_example(folder / "a.npz");
  write_example(folder / "b.npz");
  EXPECT_EQ(read_text(folder / "a.npz"), read_text(folder / "b.npz"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
}

TEST(Npz, NothingIsLeftWithoutClose) {
  const TemporaryDirectory folder;
  {
    NpzWriter file(folder / "a.npz");
    file.add("x", Array::from(std::vector<float>(1 << 20)));
    EXPECT_FALSE(fs::is_empty(folder.path()));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Npz, AnOldFileStaysUntilTheNewOneIsWhole) {
  const TemporaryDirectory folder;
  write_file(folder / "a.npz", "old");
  NpzWriter file(folder / "a.npz");
  file.add("x", Array::from(std::vector<float>(10)));
  EXPECT_EQ(read_text(folder / "a.npz"), "old");
  file.close();
  EXPECT_GT(fs::file_size(folder / "a.npz"), 40u);
}

TEST(Npz, ErrorsNameTheCulprit) {
  const TemporaryDirectory folder;
  EXPECT_ERROR(NpzWriter(folder / "none" / "a.npz"), "none/a.npz");
  NpzWriter file(folder / "a.npz");
  for (const char* text : {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_ERROR(file.add("x", std::vector<std::string>{text}), "not UTF-8");
}

}  // namespace
}  // namespace lacuna
