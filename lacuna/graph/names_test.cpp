#include "lacuna/graph/names.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

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
  EXPECT_ERROR(Names({"a", "b", "a"}), "line 3: 'a' is already on line 1");
  EXPECT_ERROR(Names({"a", ""}), "line 2: the name is empty");
  EXPECT_ERROR(Names({"a\nb"}), "line 1: a name holds a line break");
  EXPECT_ERROR(Names({"a", "b\r"}), "line 2: a name holds a line break");
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
