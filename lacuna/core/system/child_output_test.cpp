#include "lacuna/core/system/child_output.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace lacuna {
namespace {

std::string all_of(ChildOutput& child) {
  std::string all;
  std::byte piece[7];
  while (const size_t count = child.read_some(piece))
    all.append(reinterpret_cast<const char*>(piece), count);
  return all;
}

TEST(ChildOutput, GivesWhatTheProgramSaysAndHowItEnded) {
  ChildOutput child({"sh", "-c", "printf 'one two %s' \"$0\"; exit 3", "three"});
  ASSERT_EQ(child.start_error(), 0);
  EXPECT_EQ(all_of(child), "one two three");
  EXPECT_EQ(child.end(), 3);
  EXPECT_EQ(child.end(), 3);
}

TEST(ChildOutput, ASignalCountsAsAShellCountsIt) {
  ChildOutput child({"sh", "-c", "kill -9 $$"});
  EXPECT_EQ(all_of(child), "");
  EXPECT_EQ(child.end(), 128 + 9);
}

TEST(ChildOutput, AProgramThatIsNotThereIsTold) {
  const ChildOutput child({"no-such-program-of-ours"});
  EXPECT_EQ(child.start_error(), ENOENT);
}

TEST(ChildOutput, OneThatStillRunsIsEnded) {
  ChildOutput child({"sleep", "1000"});
  ASSERT_EQ(child.start_error(), 0);
}  // the test would not end otherwise

}  // namespace
}  // namespace lacuna
