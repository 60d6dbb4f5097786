#include "lacuna/screen/import/gene_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GeneList three_genes() {
  GeneList genes(Names({"YAL001C", "YAR002W", "YDL227C"}));
  genes.add_alias("TFC3", 0);
  genes.add_alias("NUP60", 1);
  return genes;
}

struct Import {
  ImportReport report;
  ImportContext context{UnknownPolicy::drop, NonNumberPolicy::error, report, Progress::none()};
};

// The genes of a cell; {99} when one is unknown.
std::vector<uint32_t> read(const GeneList& genes, const NameRules& rules, std::string_view cell) {
  Import import;
  GeneReader reader(genes, rules, import.context, "table");
  std::vector<uint32_t> found;
  return reader.read(cell, found) ? found : std::vector<uint32_t>{99};
}

TEST(GeneNames, NamesAliasesAndSpaces) {
  const GeneList genes = three_genes();
  EXPECT_THAT(read(genes, {}, "YAR002W"), ElementsAre(1));
  EXPECT_THAT(read(genes, {}, " TFC3 "), ElementsAre(0));
  EXPECT_THAT(read(genes, {}, "tfc3"), ElementsAre(99));
  EXPECT_THAT(read(genes, {}, ""), ElementsAre());
}

TEST(GeneNames, SeparatorPatternIgnore) {
  const GeneList genes = three_genes();
  EXPECT_THAT(read(genes, {.separator = ";"}, "NUP60; YAL001C;;"), ElementsAre(1, 0));
  EXPECT_THAT(read(genes, {.pattern = "^([^_]+)"}, "YAR002W_dma91"), ElementsAre(1));
  EXPECT_THAT(read(genes, {.pattern = R"(^4932\.(.+)$)"}, "4932.YAL001C"), ElementsAre(0));
  EXPECT_THAT(read(genes, {.pattern = R"(^4932\.(.+)$)"}, "YAL001C"), ElementsAre(99));
  EXPECT_THAT(read(genes, {.separator = "+", .pattern = "^([^_]+)", .ignore = {"YDL227C"}},
                   "YDL227C_sn6155+YAL001C_tsq1"),
              ElementsAre(0));
  EXPECT_THAT(read(genes, {.ignore = {"none"}}, "none"), ElementsAre());
}

TEST(GeneNames, AliasOfTwoGenesLeadsToNeither) {
  GeneList genes = three_genes();
  genes.add_alias("TFC3", 0);  // again: no harm
  EXPECT_EQ(genes.find("TFC3"), 0u);
  genes.add_alias("TFC3", 2);
  genes.add_alias("YAR002W", 0);  // a gene's own name
  EXPECT_EQ(genes.find("TFC3"), std::nullopt);
  EXPECT_TRUE(genes.is_ambiguous("TFC3"));
  EXPECT_EQ(genes.find("YAR002W"), 1u);
  EXPECT_EQ(genes.ambiguous_count(), 1u);
}

TEST(GeneNames, UnknownIsThrownOrCountedOnce) {
  const GeneList genes = three_genes();
  Import import;
  std::vector<uint32_t> found;
  GeneReader dropping(genes, {}, import.context, "table");
  for (const char* name : {"YXX1", "YXX2", "YXX1"}) {
    EXPECT_FALSE(dropping.read(name, found));
    dropping.refuse("t.tsv:7");
  }
  EXPECT_EQ(import.report.count("table", "different unknown genes"), 2u);
  import.context.unknown = UnknownPolicy::error;
  GeneReader strict(genes, {}, import.context, "table");
  EXPECT_FALSE(strict.read("YXX1", found));
  try {
    strict.refuse("t.tsv:7");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("t.tsv:7: unknown gene 'YXX1'"));
  }
}

TEST(GeneNames, WrongPatternsAreRefused) {
  const GeneList genes = three_genes();
  EXPECT_THROW(read(genes, {.pattern = "^[^_]+"}, "A"), Error);  // no group
  EXPECT_THROW(read(genes, {.pattern = "(["}, "A"), Error);      // not an expression
  EXPECT_THROW(read(genes, {.pattern = "(A)"}, std::string(100'000, 'A')), Error);
}

}  // namespace
}  // namespace lacuna
