#include "lacuna/core/text/text.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <cstdio>
#include <string>

namespace lacuna {
namespace {

TEST(Text, NumbersReadWell) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(332313), "332,313");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(2'550'000), "2.55 MB");
  EXPECT_EQ(format_bytes(855'000'000'000), "855 GB");
  EXPECT_EQ(format_duration(12.4), "12 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(3720), "1 h 02 min");
  EXPECT_EQ(format_rate(12.34), "12.3");
  EXPECT_EQ(format_rate(2'411'234), "2,410,000");
  EXPECT_EQ(format_digits(1250.4), "1250");
  EXPECT_EQ(format_digits(12.34), "12.3");
  EXPECT_EQ(format_digits(0.0031), "0.00310");
  EXPECT_EQ(format_digits(0), "0");
}

// What the shell makes of it is the word again.
TEST(Text, WordsPassTheShell) {
  EXPECT_EQ(shell_word("data/yeast-7.store"), "data/yeast-7.store");
  EXPECT_EQ(shell_word("Hefe/größe"), "Hefe/größe");
  EXPECT_EQ(shell_word("my dir/a screen"), "'my dir/a screen'");
  for (const std::string word : {"", "a b", "it's", "$HOME", "`x`", "#1", "~", "[ab]", "{a,b}",
                                 "a!b", "p<=0.05", "\\", "\"", "*", "a\tb", "x&y;z|(w)"}) {
    const std::string command = "printf %s " + shell_word(word);
    FILE* const pipe = ::popen(command.c_str(), "r");
    ASSERT_TRUE(pipe);
    char said[100] = {};
    const size_t size = std::fread(said, 1, sizeof said, pipe);
    EXPECT_EQ(::pclose(pipe), 0) << command;
    EXPECT_EQ(std::string(said, size), word) << command;
  }
}

}  // namespace
}  // namespace lacuna
