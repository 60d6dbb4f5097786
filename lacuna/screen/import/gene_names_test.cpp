#include "lacuna/screen/import/gene_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lacuna/core/error.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Names three_genes() {
  Names genes({"YAL001C", "YAR002W", "YDL227C"});
  genes.add_alias("TFC3", 0);
  genes.add_alias("NUP60", 1);
  return genes;
}

struct Import {
  ImportReport report;
  ImportContext context{UnknownPolicy::drop, NonNumberPolicy::error, report, Progress::none()};
};

// The genes of a cell; {99} when one is unknown.
std::vector<uint32_t> read(const Names& genes, const NameRules& rules, std::string_view cell) {
  Import import;
  GeneReader reader(genes, rules, import.context, "table");
  std::vector<uint32_t> found;
  return reader.read(cell, found) ? found : std::vector<uint32_t>{99};
}

TEST(GeneNames, NamesAliasesAndSpaces) {
  const Names genes = three_genes();
  EXPECT_THAT(read(genes, {}, "YAR002W"), ElementsAre(1));
  EXPECT_THAT(read(genes, {}, " TFC3 "), ElementsAre(0));
  EXPECT_THAT(read(genes, {}, "tfc3"), ElementsAre(0));
  EXPECT_THAT(read(genes, {.letters = Names::Case::exact}, "tfc3"), ElementsAre(99));
  EXPECT_THAT(read(genes, {}, ""), ElementsAre());
}

TEST(GeneNames, SeparatorPatternIgnore) {
  const Names genes = three_genes();
  EXPECT_THAT(read(genes, {.separator = ";"}, "NUP60; YAL001C;;"), ElementsAre(1, 0));
  EXPECT_THAT(read(genes, {.pattern = "^([^_]+)"}, "YAR002W_dma91"), ElementsAre(1));
  EXPECT_THAT(read(genes, {.pattern = R"(^4932\.(.+)$)"}, "4932.YAL001C"), ElementsAre(0));
  EXPECT_THAT(read(genes, {.pattern = R"(^4932\.(.+)$)"}, "YAL001C"), ElementsAre(99));
  EXPECT_THAT(read(genes, {.separator = "+", .pattern = "^([^_]+)", .ignore = {"YDL227C"}},
                   "YDL227C_sn6155+YAL001C_tsq1"),
              ElementsAre(0));
  EXPECT_THAT(read(genes, {.ignore = {"none"}}, "none"), ElementsAre());
  EXPECT_THAT(read(genes, {.ignore = {"none"}}, "NONE"), ElementsAre());
  EXPECT_THAT(read(genes, {.separator = "_", .pattern = "^([a-z]+[0-9]+|ho)", .ignore = {"HO"}},
                   "tfc3-129_hoΔ_nup60Δ"),
              ElementsAre(0, 1));
}

TEST(GeneNames, UnknownNamesAreCollectedAndThenTold) {
  Names genes = three_genes();
  genes.add_alias("OCT1", 2);
  genes.add_alias("both", 0);
  genes.add_alias("both", 1);
  Import import;
  import.context.unknown = UnknownPolicy::error;
  std::vector<uint32_t> found;
  GeneReader strict(genes, {.pattern = "^([^_]+)_"}, import.context, "t.tsv");
  int line = 2;
  for (const char* cell : {"TFC4_x", "NUP60_y", "1-Oct_z", "both_x", "nothing", "TFC4_x"})
    if (!strict.read(cell, found)) strict.refuse(fmt::format("t.tsv:{}", line++));
  GeneReader dropping(genes, {.unknown = UnknownPolicy::drop}, import.context, "u.tsv");
  EXPECT_FALSE(dropping.read("YXX1", found));
  dropping.refuse("u.tsv:2");

  EXPECT_EQ(import.report.count("t.tsv", "different unknown genes"), 4u);
  explain_unknown(import.report, genes);
  const auto& names = import.report.unknown_names;
  ASSERT_EQ(names.size(), 5u);
  EXPECT_EQ(names[0].name, "TFC4");
  EXPECT_EQ(names[0].cell, "TFC4_x");
  EXPECT_EQ(names[0].count, 2u);
  EXPECT_EQ(names[0].why, "nearest is TFC3 (YAL001C)");
  EXPECT_THAT(names[1].why, HasSubstr("a date, which a spreadsheet has made of a name such as "
                                      "OCT1 (YDL227C)"));
  EXPECT_THAT(names[2].why, HasSubstr("an alias of several genes (YAL001C, YAR002W)"));
  EXPECT_EQ(names[3].why, "the pattern finds nothing in it");
  EXPECT_ERROR(check_unknown(import.report),
               "4 unknown genes: t.tsv:2: unknown gene 'TFC4' (from 'TFC4_x'): nearest is TFC3");
}

TEST(GeneNames, MostRowsLeftOutIsAProblem) {
  Import import;
  import.context.check_left_out("a.tsv", 10, 5, UnknownPolicy::drop);
  import.context.check_left_out("a.tsv", 10, 6, UnknownPolicy::drop_most);
  EXPECT_TRUE(import.report.problems.empty());
  import.context.check_left_out("a.tsv", 10, 6, UnknownPolicy::drop);
  ASSERT_EQ(import.report.problems.size(), 1u);
  EXPECT_THAT(import.report.problems[0], HasSubstr("a.tsv: 6 of its 10 rows"));
  EXPECT_THAT(import.report.problems[0], HasSubstr("unknown=drop-most"));
}

TEST(GeneNames, WrongPatternsAreRefused) {
  const Names genes = three_genes();
  EXPECT_THROW(read(genes, {.pattern = "^[^_]+"}, "A"), Error);  // no group
  EXPECT_THROW(read(genes, {.pattern = "(["}, "A"), Error);      // not an expression
  EXPECT_THROW(read(genes, {.pattern = "(A)"}, std::string(100'000, 'A')), Error);
}

}  // namespace
}  // namespace lacuna
