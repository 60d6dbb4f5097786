#include "lacuna/core/text/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace lacuna {
namespace {

TEST(Nearest, CountsLetters) {
  EXPECT_EQ(letters_apart("kitten", "sitting"), 3u);
  EXPECT_EQ(letters_apart("", "abc"), 3u);
  EXPECT_EQ(letters_apart("abc", ""), 3u);
  EXPECT_EQ(letters_apart("flaw", "lawn"), 2u);
  EXPECT_EQ(letters_apart("YAL001C", "yal001c"), 0u);
}

TEST(Nearest, FindsTheNearest) {
  const std::vector<std::string> genes = {"YAL001C", "YBR001C", "YAL002W"};
  EXPECT_EQ(nearest_word("yal02w", genes), "YAL002W");
  EXPECT_EQ(nearest_word("YBR01C", genes), "YBR001C");
  EXPECT_EQ(nearest_word("x", std::span<const std::string>()), "");
}

// Comparing them as wholes would take days.
TEST(Nearest, WordsWithoutEndTakeNoTime) {
  const std::vector<std::string> known = {std::string(10'000'000, 'a'), "b" + std::string(50, 'c')};
  EXPECT_EQ(nearest_word(std::string(10'000'000, 'a') + "x", known), known[0]);
}

}  // namespace
}  // namespace lacuna
