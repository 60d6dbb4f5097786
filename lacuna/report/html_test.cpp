#include "lacuna/report/html.h"

#include <gmock/gmock.h>

#include <limits>

namespace lacuna::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Html, EscapesWhatWouldEndATextOrAnAttribute) {
  EXPECT_EQ(escape("<script>\"&'"), "&lt;script&gt;&quot;&amp;&#39;");
  EXPECT_EQ(escape("a\tb\nc\x01"), "a\tb\nc\uFFFD");
  EXPECT_EQ(escape("größe"), "größe");
}

TEST(Html, NumbersThatAreNotDefinedSaySo) {
  EXPECT_EQ(number(0.00012346), "0.0001235");
  EXPECT_EQ(correlation(0.4126), "0.413");
  EXPECT_EQ(correlation(-0.0004), "0.000");
  EXPECT_EQ(correlation(-0.0006), "-0.001");
  EXPECT_EQ(number(std::numeric_limits<double>::quiet_NaN()), "not defined");
  EXPECT_EQ(correlation(std::numeric_limits<double>::infinity()), "not defined");
}

TEST(Html, ProseSetsCodeAndEscapesBothSides) {
  EXPECT_EQ(prose("run `a <b>` & c"), "run <code>a &lt;b&gt;</code> &amp; c");
  EXPECT_EQ(prose("one ` alone <"), "one ` alone &lt;");
}

TEST(Html, EveryPlaceForTextIsEscaped) {
  const std::string evil = "<img src=x onerror=alert(1)>";
  for (const auto& html :
       {paragraph(evil), note(evil), figure(evil, "", evil), fold(evil, "", true), code_block(evil),
        legend({{evil, 3}}), table({evil}, {{.cells = {text_cell(evil)}}})})
    EXPECT_THAT(html, AllOf(Not(HasSubstr("<img")), HasSubstr("&lt;img")));
}

TEST(Html, AColumnOfNumbersHasItsHeadOnTheSameSide) {
  const std::string html =
      table({"name", "count"}, {{.cells = {text_cell("a"), count_cell(12345)}}});
  EXPECT_THAT(html, HasSubstr("<th>name</th><th class=\"n\">count</th>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">12,345</td>"));
}

}  // namespace
}  // namespace lacuna::report
