#include "lacuna/report/made_how.h"

#include <gmock/gmock.h>

namespace lacuna::report {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SplitWords, SayMethodSeedAndWhatWasHeldOut) {
  const Json fractions = {0.8, 0.1, 0.1};
  const std::string gene = split_words({{"by", "gene"},
                                        {"seed", 7},
                                        {"fractions", fractions},
                                        {"test_genes", 1200},
                                        {"validation_genes", 90}});
  EXPECT_THAT(gene, StartsWith("drawn by gene with seed 7 (80% training, 10% validation, 10% "));
  EXPECT_THAT(gene, HasSubstr("1,200 of the test part, 90 of the validation part"));
  EXPECT_THAT(split_words({{"by", "pair"}, {"seed", 1}}), HasSubstr("query pairs"));
  EXPECT_THAT(split_words({{"by", "pair"}, {"column", "query"}}), HasSubstr("column 'query'"));
  EXPECT_THAT(split_words({{"by", "category"}, {"column", "batch"}}),
              HasSubstr("held out are categories of the column 'batch'"));
  EXPECT_EQ(split_words({{"by", "category"},
                         {"seed", 0},
                         {"fractions", fractions},
                         {"column", "screen"},
                         {"hold_out", {"a2010", "b2007"}}}),
            "drawn by category with seed 0; held out for test is all of a2010, b2007 in the column "
            "'screen'");
  EXPECT_THAT(split_words({{"by", "random"}, {"repeats_together", false}}),
              HasSubstr("others of the same genes may be in training"));
  EXPECT_THAT(split_words({{"by", "subset"}, {"of", {{"by", "random"}, {"seed", 3}}}}),
              HasSubstr("a split that was drawn by random with seed 3"));
  EXPECT_EQ(split_words(Json()), "");
  EXPECT_EQ(split_words(Json::object()), "");
}

TEST(ImportCounts, AreReadFromTheManifest) {
  const Json made_by = {{"report",
                         {{"a.tsv",
                           {{"rows", 12},
                            {"rows left out: an unknown gene",
                             {{"count", 3}, {"examples", {"a.tsv:2: 'X'", "a.tsv:9: 'Y'"}}}}}},
                          {"odd", 5}}}};
  const auto counts = import_counts(made_by);
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0].what, "rows");
  EXPECT_FALSE(counts[0].is_left_out);
  EXPECT_EQ(counts[1].count, 3u);
  EXPECT_EQ(counts[1].examples, "a.tsv:2: 'X'; a.tsv:9: 'Y'");
  EXPECT_TRUE(counts[1].is_left_out);
  EXPECT_TRUE(import_counts(Json()).empty());
  EXPECT_TRUE(import_counts({{"command", "lacuna generate"}}).empty());
}

}  // namespace
}  // namespace lacuna::report
