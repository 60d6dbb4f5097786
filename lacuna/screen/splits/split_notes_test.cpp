#include "lacuna/screen/splits/split_notes.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"
#include "lacuna/screen/splits/split.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

class SplitNotes : public ::testing::Test {
 protected:
  // Each sample is a list of genes, of kGenes.
  Screen write(const std::vector<std::vector<uint32_t>>& removed) {
    SampleBuilder builder(kGenes, {});
    for (const auto& genes : removed) builder.add(genes, {});
    return write_screen(directory_ / std::to_string(screens_++),
                        {small_graph(seed_, kGenes), builder.finish(), {}, {}});
  }
  static Split given(std::vector<uint8_t> parts) {
    return {"given", Array::from(std::move(parts)), {{"by", "import"}}};
  }

  static constexpr uint32_t kGenes = 40;
  uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TemporaryDirectory directory_;
  int screens_ = 0;
};

TEST_F(SplitNotes, APairSplitOfUniqueDoublesEqualsRandom) {
  std::vector<std::vector<uint32_t>> doubles;
  for (uint32_t a = 0; a < kGenes; ++a)
    for (uint32_t b = a + 1; b < kGenes; ++b) doubles.push_back({a, b});
  const Screen screen = write(doubles);
  const DrawOptions by_pair = {.by = SplitBy::pair, .seed = seed_};
  const auto notes = split_notes(draw_split(screen, "p", by_pair));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("equals a random split"), std::string::npos) << notes[0];
  EXPECT_TRUE(split_notes(draw_split(screen, "r", {.seed = seed_})).empty());

  doubles.push_back({0, 1, 2});  // a second sample with the pair (0, 1): now pairs do hold together
  EXPECT_TRUE(split_notes(draw_split(write(doubles), "p", by_pair)).empty());
}

TEST_F(SplitNotes, FewLargePairsMissTheShares) {
  std::vector<std::vector<uint32_t>> triples;
  for (uint32_t pair = 0; pair < 8; ++pair)
    for (uint32_t third = 16; third < kGenes; ++third)
      triples.push_back({2 * pair, 2 * pair + 1, third});
  const auto notes =
      split_notes(draw_split(write(triples), "p", {.by = SplitBy::pair, .seed = seed_}));
  ASSERT_EQ(notes.size(), 1u);
  for (const char* words : {"test has 12.5% (asked: 10.0%)", "validation has 12.5%",
                            "8 groups of samples, the largest has 24 samples", "What would help:"})
    EXPECT_NE(notes[0].find(words), std::string::npos) << notes[0];
}

TEST_F(SplitNotes, SmallScreensAreNotBlamedForRounding) {
  std::vector<std::vector<uint32_t>> singles;
  for (uint32_t gene = 0; gene < 12; ++gene) singles.push_back({gene});  // a tenth is 1.2 samples
  EXPECT_TRUE(split_notes(draw_split(write(singles), "r", {.seed = seed_})).empty());
}

TEST_F(SplitNotes, TheSameGenesInTrainingAndTestAreCounted) {
  const Screen screen = write({{1, 2}, {2, 1, 1}, {3}, {3, 4}, {}, {}});
  const auto shared = [&](std::vector<uint8_t> parts) {
    return count_shared_sets(screen.samples(), kGenes, given(std::move(parts)));
  };
  const SharedSets leaks = shared({0, 2, 2, 0, 1, 0});
  EXPECT_EQ(leaks.test, 1u);        // {1, 2}, whatever its order
  EXPECT_EQ(leaks.validation, 1u);  // the wild type
  EXPECT_NE(leaks.words("given").find("1 samples of test and 1 of validation"), std::string::npos);
  const SharedSets none = shared({0, 0, 2, 1, 2, 255});
  EXPECT_EQ(none.test + none.validation, 0u);
  EXPECT_EQ(none.words("given"), "");
}

}  // namespace
}  // namespace lacuna
