#include "lacuna/core/hash.h"

#include <gtest/gtest.h>

#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// Published for XXH3, 64 bits, seed 0: what is written today must be readable with any other
// program.
TEST(Hash, IsXxh3) { EXPECT_EQ(hash64(std::string_view()), 0x2d06800538d394c2u); }

TEST(Hash, PiecesGiveTheHashOfTheWhole) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (uint64_t round = 0; round < 100; ++round) {
    Random random(seed, round);
    std::string text(random.below(5000), ' ');
    for (char& c : text) c = char(random.next());
    Hasher hasher;
    for (std::string_view left = text; !left.empty();) {
      const size_t piece = 1 + random.below(left.size());
      hasher.add(left.substr(0, piece));
      left.remove_prefix(piece);
    }
    ASSERT_EQ(hasher.value(), hash64(text));
    ASSERT_EQ(hash64(std::as_bytes(std::span(text))), hash64(text));
  }
}

TEST(Hash, ReadingTheValueDoesNotChangeIt) {
  Hasher hasher;
  hasher.add("a");
  const uint64_t first = hasher.value();
  EXPECT_EQ(hasher.value(), first);
  hasher.add("b");
  EXPECT_EQ(hasher.value(), hash64("ab"));
  Hasher moved = std::move(hasher);
  EXPECT_EQ(moved.value(), hash64("ab"));
}

TEST(Hash, OneChangedBitChangesIt) {
  std::string text(300, 'x');
  std::set<uint64_t> seen = {hash64(text)};
  for (size_t i = 0; i < text.size() * 8; ++i) {
    text[i / 8] = char(text[i / 8] ^ 1 << i % 8);
    EXPECT_TRUE(seen.insert(hash64(text)).second);
    text[i / 8] = char(text[i / 8] ^ 1 << i % 8);
  }
}

TEST(Hash, HexIsSixteenDigitsBothWays) {
  for (const uint64_t value : {uint64_t(0), uint64_t(1), uint64_t(0xc0ffee), ~uint64_t(0)}) {
    EXPECT_EQ(hex(value).size(), 16u);
    EXPECT_EQ(hash_from_hex(hex(value)), value);
  }
  EXPECT_EQ(hex(0xc0ffee00c0ffeeu), "00c0ffee00c0ffee");
  for (const char* wrong : {"", "c0ffee", "00c0ffee00c0ffeg", "-0c0ffee00c0ffee",
                            "0x0ffee00c0ffee0", "00c0ffee00c0ffee0"})
    EXPECT_ERROR(hash_from_hex(wrong), "16 hex digits");
}

}  // namespace
}  // namespace lacuna
