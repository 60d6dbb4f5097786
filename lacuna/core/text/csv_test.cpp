#include "lacuna/core/text/csv.h"

#include <gtest/gtest.h>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

TEST(Csv, WhatSpreadsheetsComputeWithGetsAnApostrophe) {
  EXPECT_EQ(csv_cell("HO"), "HO");
  EXPECT_EQ(csv_cell(""), "");
  EXPECT_EQ(csv_cell("=1+2"), "'=1+2");
  EXPECT_EQ(csv_cell("+x"), "'+x");
  EXPECT_EQ(csv_cell("-omega"), "'-omega");
  EXPECT_EQ(csv_cell("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_cell("-"), "'-");
  EXPECT_EQ(csv_cell("\t=1"), "'\t=1");
  EXPECT_EQ(csv_cell("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(csv_cell("''=1"), "'''=1");
  EXPECT_EQ(csv_cell("'tis"), "'tis");
  EXPECT_EQ(csv_cell("a=b"), "a=b");
  EXPECT_EQ(csv_cell("=a,\"b\""), "\"'=a,\"\"b\"\"\"");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
}

TEST(Csv, NumbersStayNumbers) {
  for (const char* const number : {"-0.5", "-3", "1e-9", "-1e-09"})
    EXPECT_EQ(csv_cell(number), number);
  for (const char* const text : {"-inf", "-nan", "-1x", "--1", "-1+1"})
    EXPECT_EQ(csv_cell(text), "'" + std::string(text));
}

TEST(Csv, EveryTextComesBack) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr std::string_view kLetters = "'='+-@\t\r1.\",aé";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (uint64_t i = random.below(7); i > 0; --i) text += kLetters[random.below(kLetters.size())];
    std::string cell = csv_cell(text);
    if (cell.starts_with('"')) {  // as any reader of CSV does
      ASSERT_TRUE(cell.size() > 1 && cell.ends_with('"')) << cell;
      cell = cell.substr(1, cell.size() - 2);
      for (size_t at = 0; (at = cell.find("\"\"", at)) != cell.npos; ++at) cell.erase(at, 1);
    }
    ASSERT_EQ(without_apostrophe(cell), text);
    const bool is_number =
        !cell.empty() && cell == text && cell.find_first_of("=+@\t\r'") == cell.npos;
    ASSERT_TRUE(cell.empty() || is_number ||
                std::string_view("=+-@\t\r").find(cell.front()) == std::string_view::npos)
        << cell;
  }
}

}  // namespace
}  // namespace lacuna
