#include "lacuna/screen/gene_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using Sets = std::vector<GeneSet>;

TEST(GeneRule, Examples) {
  EXPECT_EQ(parse_gene_rule(""), Sets{});
  EXPECT_EQ(parse_gene_rule("  "), Sets{});
  EXPECT_EQ(parse_gene_rule("YAL060W"), (Sets{{"YAL060W"}}));
  EXPECT_EQ(parse_gene_rule("(A and B) or C"), (Sets{{"A", "B"}, {"C"}}));
  EXPECT_EQ(parse_gene_rule("A and B or C and D"), (Sets{{"A", "B"}, {"C", "D"}}));
  EXPECT_EQ(parse_gene_rule("(A or B) and (C or D)"),
            (Sets{{"A", "C"}, {"A", "D"}, {"B", "C"}, {"B", "D"}}));
  EXPECT_EQ(parse_gene_rule("((A OR (B And C)))"), (Sets{{"A"}, {"B", "C"}}));
  EXPECT_EQ(parse_gene_rule("A & B | C && D || E"), (Sets{{"A", "B"}, {"C", "D"}, {"E"}}));
}

TEST(GeneRule, RepeatsGoButSmallerSetsStay) {
  EXPECT_EQ(parse_gene_rule("A and A"), (Sets{{"A"}}));
  EXPECT_EQ(parse_gene_rule("(A and B) or (B and A)"), (Sets{{"A", "B"}}));
  EXPECT_EQ(parse_gene_rule("(A and B) or B"), (Sets{{"A", "B"}, {"B"}}));
}

TEST(GeneRule, NonsenseIsRefusedWithItsPlace) {
  const auto place_of = [](const char* rule) {
    try {
      parse_gene_rule(rule);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(place_of("(A and B"), HasSubstr("')' expected at character 9"));
  EXPECT_THAT(place_of("A B"), HasSubstr("expected at character 3, not 'B'"));
  EXPECT_THAT(place_of("A and"), HasSubstr("a gene or '(' expected at character 6"));
  EXPECT_THAT(place_of("or A"), HasSubstr("character 1, not 'or'"));
  EXPECT_THAT(place_of("A)"), HasSubstr("character 2, not ')'"));
  EXPECT_THAT(place_of("()"), HasSubstr("character 2"));
  std::string wide = "(A0 or B0)";
  for (int i = 1; i < 20; ++i) wide += fmt::format(" and (A{} or B{})", i, i);
  EXPECT_THAT(place_of(wide.c_str()), HasSubstr("multiplies out to over 10000"));
  EXPECT_THAT(place_of(std::string(100'000, '(').c_str()), HasSubstr("nested"));
}

// Time grows with the square of a rule's length: without a bound these would take hours.
TEST(GeneRule, RulesWithoutEndAreRefused) {
  std::string all = "A0";
  for (int i = 1; i < 200'000; ++i) all += fmt::format(" and A{}", i);
  EXPECT_ERROR(parse_gene_rule(all), "is too long to take apart");
  std::string wide = "(A0";
  for (int i = 1; i < 9000; ++i) wide += fmt::format(" or A{}", i);
  wide += ")";
  for (int i = 0; i < 9000; ++i) wide += fmt::format(" and B{}", i);
  EXPECT_ERROR(parse_gene_rule(wide), "is too long to take apart");
  std::string long_one = "A0";
  for (int i = 1; i < 2000; ++i) long_one += fmt::format(" and A{}", i);
  EXPECT_EQ(parse_gene_rule(long_one).at(0).size(), 2000u);
  const std::string said = error_of([&] { parse_gene_rule("A " + std::string(10'000'000, 'B')); });
  EXPECT_LT(said.size(), 1000u);
}

// A random expression over a few genes, as text and as a function of the genes that are present.
struct Expression {
  std::string text;
  std::set<uint32_t> true_for;  // bit sets of present genes
};
constexpr uint32_t kGenes = 5;

Expression random_expression(Random& random, int depth) {
  if (depth == 0 || random.below(4) == 0) {
    const uint32_t gene = uint32_t(random.below(kGenes));
    Expression one = {fmt::format("G{}", gene), {}};
    for (uint32_t present = 0; present < 1u << kGenes; ++present)
      if (present >> gene & 1) one.true_for.insert(present);
    return one;
  }
  const Expression a = random_expression(random, depth - 1),
                   b = random_expression(random, depth - 1);
  const bool is_and = random.below(2) == 0;
  Expression both = {fmt::format("({}) {} ({})", a.text, is_and ? "and" : "or", b.text), {}};
  for (uint32_t present = 0; present < 1u << kGenes; ++present) {
    const bool in_a = a.true_for.contains(present), in_b = b.true_for.contains(present);
    if (is_and ? in_a && in_b : in_a || in_b) both.true_for.insert(present);
  }
  return both;
}

TEST(GeneRule, SetsMeanTheSameAsTheRule) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const Expression expression = random_expression(random, 4);
    const Sets sets = parse_gene_rule(expression.text);
    for (uint32_t present = 0; present < 1u << kGenes; ++present) {
      bool enough = false;
      for (const GeneSet& set : sets) {
        bool all = true;
        for (const std::string& gene : set) all = all && (present >> (gene[1] - '0') & 1);
        enough = enough || all;
      }
      ASSERT_EQ(enough, expression.true_for.contains(present)) << expression.text;
    }
  }
}

}  // namespace
}  // namespace lacuna
