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

TEST(Names, LookUpTakesAliasesAndAnyCaseThatIsClear) {
  using Match = Names::Match;
  Names names({"YAL002W", "YBR001C", "ybr001c"});
  names.add_alias("VPS8", 0);
  names.add_alias("VPT8", 0);
  names.add_alias("NTH2", 1);
  names.add_alias("Nth2", 2);
  names.add_alias("YAL002W", 1);  // a node's own name: no effect
  const auto is = [&](std::string_view name, Match match, uint32_t index) {
    const Names::Found found = names.look_up(name);
    return found.match == match && (!found || found.index == index);
  };
  EXPECT_TRUE(is("YAL002W", Match::own, 0));
  EXPECT_TRUE(is("VPT8", Match::alias, 0));
  EXPECT_TRUE(is("VPS8 (YAL002W)", Match::shown, 0));
  EXPECT_TRUE(is("NTH2 (YAL002W)", Match::none, 0));
  EXPECT_TRUE(is("vps8", Match::other_case, 0));
  EXPECT_TRUE(is("yal002w", Match::other_case, 0));
  EXPECT_TRUE(is("NTH2", Match::alias, 1));  // exactly that, whatever else there is
  EXPECT_TRUE(is("nth2", Match::ambiguous, 0));
  EXPECT_TRUE(is("YBR001c", Match::ambiguous, 0));
  EXPECT_TRUE(is("ybr001c", Match::own, 2));
  EXPECT_EQ(names.look_up("vps8", Names::Case::exact).match, Match::none);
  EXPECT_EQ(names.shown(0), "VPS8 (YAL002W)");
  EXPECT_EQ(Names({"a"}).shown(0), "a");
  EXPECT_EQ(names.alias_count(), 4u);
  EXPECT_EQ(names.hash(), Names({"YAL002W", "YBR001C", "ybr001c"}).hash());
}

TEST(Names, AnAliasOfTwoLeadsToNeitherAndBothAreNamed) {
  Names names({"a1", "b1", "c1"});
  names.add_alias("both", 0);
  names.add_alias("both", 0);  // again: no harm
  EXPECT_EQ(names.look_up("both").index, 0u);
  EXPECT_TRUE(names.look_up("both"));
  names.add_alias("both", 2);
  EXPECT_FALSE(names.look_up("both"));
  EXPECT_EQ(names.ambiguous_count(), 1u);
  EXPECT_EQ(names.why_not("both"),
            "'both' is an alias of several genes (a1, c1); write one of them");
  EXPECT_EQ(names.why_not("botd"), "there is no gene 'botd'; did you mean 'both (a1)'?");
  EXPECT_ERROR(names.add_alias("x\ty", 0), "cannot be another name of 'a1'");
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
