#include "lacuna/core/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

TEST(Error, FormatsItsMessage) {
  EXPECT_ERROR(throw Error("gene {} of {}", 7, "the screen"), "gene 7 of the screen");
}

TEST(Error, AMessageWithoutArgumentsIsTakenAsItIs) {
  EXPECT_ERROR(throw Error(std::string("braces {} stay")), "braces {} stay");
}

TEST(Error, AMessageIsOneBoundedLineWhateverANameHolds) {
  const std::string name("a\0b\n\x1b[2J", 8);
  EXPECT_EQ(error_of([&] { throw Error("no gene '{}' here; look again", name); }),
            "no gene 'a\\x00b\\n\\x1b[2J' here; look again");
  const std::string endless(10'000'000, 'x');
  const std::string words =
      error_of([&] { throw Error("no gene '{}' here; look again", endless); });
  EXPECT_LE(words.size(), kLongestMessage);
  EXPECT_TRUE(words.starts_with("no gene 'xxx") && words.ends_with("xxx' here; look again"));
}

TEST(Error, AUsageErrorIsAnError) { EXPECT_THROW(throw UsageError("no {}", "such"), Error); }

TEST(Error, ErrnoMessageHasPathActAndReason) {
  const std::string words = error_of([] {
    errno = ENOENT;
    throw_errno("dir/file", "cannot open");
  });
  EXPECT_EQ(words, "dir/file: cannot open: No such file or directory");
}

TEST(Assert, IsNoErrorOfTheUsers) {
  const auto fail = [] { LACUNA_ASSERT(1 + 1 == 3); };
  EXPECT_THROW(fail(), std::logic_error);
  try {
    fail();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3 is false at "), std::string::npos);
    EXPECT_EQ(dynamic_cast<const Error*>(&error), nullptr);
  }
  EXPECT_NO_THROW(LACUNA_ASSERT(1 + 1 == 2));
}

}  // namespace
}  // namespace lacuna
