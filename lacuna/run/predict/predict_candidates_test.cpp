#include "lacuna/run/predict/predict_candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

const Names& seven_genes() {
  static const Names names({"a", "b", "c", "d", "e", "f", "g"});
  return names;
}

// Two labels: the sum of the removed genes' numbers, and how many they are.
std::vector<float> sum_and_count(std::span<const int32_t> removed, std::span<const int32_t> ptr) {
  std::vector<float> out;
  for (size_t b = 0; b + 1 < ptr.size(); ++b) {
    float sum = 0;
    for (int32_t i = ptr[b]; i < ptr[b + 1]; ++i) sum += float(removed[size_t(i)]);
    out.insert(out.end(), {sum, float(ptr[b + 1] - ptr[b])});
  }
  return out;
}

PredictionTask task(const fs::path& out, uint64_t batch) {
  return {.out = out, .genes = seven_genes(), .labels = {"sum", "count"}, .batch = batch};
}

TEST(PredictCandidates, TheBatchSizeMakesNoDifference) {
  const TemporaryDirectory folder;
  std::string expected = "gene_1,gene_2,sum,count\n";
  for (uint32_t a = 0; a < 7; ++a)
    for (uint32_t b = a + 1; b < 7; ++b)
      expected += fmt::format("{},{},{},2\n", seven_genes()[a], seven_genes()[b], a + b);
  for (const uint64_t batch : {1, 2, 4, 20, 21, 22, 1000}) {
    EXPECT_EQ(
        predict_candidates(*all_pairs(all_genes(7)), sum_and_count, task(folder / "p.csv", batch)),
        21u);
    EXPECT_EQ(read_text(folder / "p.csv"), expected) << batch;
  }
}

TEST(PredictCandidates, ListedSamplesOfAnyWidth) {
  const TemporaryDirectory folder;
  write_file(folder / "samples.txt", "g\n-\nb c d\n");
  predict_candidates(*listed_samples(folder / "samples.txt", seven_genes()), sum_and_count,
                     task(folder / "p.csv", 2));
  EXPECT_EQ(read_text(folder / "p.csv"),
            "gene_1,gene_2,gene_3,sum,count\ng,,,6,1\n,,,0,0\nb,c,d,6,3\n");
}

TEST(PredictCandidates, TheBest) {
  const TemporaryDirectory folder;
  PredictionTask best = task(folder / "p.csv", 4);
  best.top = {.count = 3};
  EXPECT_EQ(predict_candidates(*all_pairs(all_genes(7)), sum_and_count, best), 3u);
  EXPECT_EQ(read_text(best.out), "gene_1,gene_2,sum,count\nf,g,11,2\ne,g,10,2\nd,g,9,2\n");
  best.top = {.count = 2, .lowest = true};
  predict_candidates(*all_pairs(all_genes(7)), sum_and_count, best);
  EXPECT_EQ(read_text(best.out), "gene_1,gene_2,sum,count\na,b,1,2\na,c,2,2\n");
  best.top = {.count = 100};
  EXPECT_EQ(predict_candidates(*all_pairs(all_genes(7)), sum_and_count, best), 21u);
}

TEST(PredictCandidates, StoppedLeavesNoFile) {
  const TemporaryDirectory folder;
  const StopAfter stop(2);
  const auto words = error_of([&] {
    predict_candidates(*all_pairs(all_genes(7)), sum_and_count, task(folder / "p.npz", 5));
  });
  EXPECT_NE(words.find("stopped after 5 of 21 samples"), words.npos) << words;
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

class Heard : public Progress {
 public:
  void begin(std::string_view, uint64_t total, std::string_view) override { total_ = total; }
  void advance(uint64_t done) override { done_.push_back(done); }
  void end() override { ended_ = true; }
  uint64_t total_ = 0;
  std::vector<uint64_t> done_;
  bool ended_ = false;
};

TEST(PredictCandidates, TellsHowFarItIs) {
  const TemporaryDirectory folder;
  Heard heard;
  predict_candidates(*all_pairs(all_genes(7)), sum_and_count, task(folder / "p.npz", 10), heard);
  EXPECT_EQ(heard.total_, 21u);
  EXPECT_EQ(heard.done_, (std::vector<uint64_t>{10, 20, 21}));
  EXPECT_TRUE(heard.ended_);
}

// Against sorting them all: many ties, some NaN.
TEST(BestPredictions, AreThoseOfASort) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (const bool lowest : {false, true})
    for (const uint64_t count : {0, 1, 10, 500, 1000, 2000}) {
      BestPredictions best(count, 1, lowest);
      std::vector<std::pair<float, uint64_t>> all;  // a key that sorts ascending, number
      for (uint64_t number = 0; number < 1000; ++number) {
        float value = float(random.below(100)) - 50;
        if (random.below(20) == 0) value = std::nanf("");
        best.add(std::vector<uint32_t>{uint32_t(number), 7}, std::vector<float>{0.f, value});
        all.emplace_back(std::isnan(value) ? INFINITY : lowest ? value : -value, number);
      }
      std::sort(all.begin(), all.end());
      const auto found = best.take();
      ASSERT_EQ(found.size(), std::min<uint64_t>(count, 1000));
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].number, all[i].second) << i;
        EXPECT_EQ(found[i].genes, (std::vector<uint32_t>{uint32_t(all[i].second), 7}));
      }
    }
}

}  // namespace
}  // namespace lacuna
