#include "lacuna/graph/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

std::string error_of(std::vector<std::string> names) {
  try {
    Names made(std::move(names));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Names, FindsEveryNameAtItsPlace) {
  const Names names({"YAL001C", "YBR002W", "10"});
  ASSERT_EQ(names.size(), 3u);
  for (uint32_t i = 0; i < names.size(); ++i) EXPECT_EQ(names.find(names[i]), i);
  EXPECT_EQ(names.find("YAL001"), std::nullopt);
  EXPECT_EQ(names.find(""), std::nullopt);
}

TEST(Names, NoNamesAreAList) {
  EXPECT_EQ(Names().size(), 0u);
  EXPECT_EQ(Names().find("a"), std::nullopt);
  EXPECT_EQ(Names().hash(), Names(std::vector<std::string>{}).hash());
}

TEST(Names, ErrorsNameTheLine) {
  EXPECT_THAT(error_of({"a", "b", "a"}), testing::HasSubstr("line 3: 'a' is already on line 1"));
  EXPECT_THAT(error_of({"a", ""}), testing::HasSubstr("line 2: the name is empty"));
  EXPECT_THAT(error_of({"a\nb"}), testing::HasSubstr("line 1: a name holds a line break"));
  EXPECT_THAT(error_of({"a", "b\r"}), testing::HasSubstr("line 2: a name holds a line break"));
}

TEST(Names, HashDependsOnNamesAndOrderAndNothingElse) {
  const uint64_t hash = Names({"a", "b", "c"}).hash();
  EXPECT_EQ(Names({"a", "b", "c"}).hash(), hash);
  EXPECT_NE(Names({"a", "c", "b"}).hash(), hash);
  EXPECT_NE(Names({"ab", "c"}).hash(), hash);
  EXPECT_NE(Names({"a", "bc"}).hash(), Names({"ab", "c"}).hash());
  EXPECT_NE(Names({"a", "b"}).hash(), hash);
}

}  // namespace
}  // namespace lacuna
