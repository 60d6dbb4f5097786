#include "lacuna/core/text/printable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using namespace std::string_literals;

TEST(Printable, PlainTextStaysAsItIs) {
  for (const char* text : {"", "a b~!", "Größe 10 µm", "遺伝子", "\U0001F9EC", "\u00a0"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ControlCharactersAreVisible) {
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");  // CSI as one character
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb");  // from right to left
}

TEST(Printable, WhatIsNotUtf8IsVisible) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("a\xc3"), "a\\xc3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");           // two bytes for a NUL
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
}

TEST(Printable, LongTextKeepsBothEnds) {
  const std::string text = "begin" + std::string(10'000'000, 'x') + "end";
  const std::string shown = printable(text);
  EXPECT_LE(shown.size(), kLongestMessage);
  EXPECT_TRUE(shown.starts_with("beginx") && shown.ends_with("xend"));
  EXPECT_NE(shown.find(" ... (10,000,008 bytes in all) ... "), shown.npos);
}

// Any bytes become one line of UTF-8 (the JSON library checks that) of bounded size.
TEST(Printable, AnyBytesBecomeOneLine) {
  const uint64_t seed = test_seed();
  Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random.below(300), ' ');
    for (char& c : text) c = char(random.below(3) ? random.below(256) : 0xe0 + random.below(32));
    const std::string shown = printable(text, 100);
    EXPECT_TRUE(std::none_of(shown.begin(), shown.end(), [](char c) {
      return uint8_t(c) < 0x20 || c == 0x7f;
    })) << shown;
    EXPECT_NO_THROW(nlohmann::json(shown).dump()) << shown;
    EXPECT_LE(shown.size(), 100u);
    EXPECT_EQ(printable(shown, 100), shown);
  }
}

}  // namespace
}  // namespace lacuna
