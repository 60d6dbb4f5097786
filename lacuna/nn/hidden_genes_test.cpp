#include "lacuna/nn/hidden_genes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lacuna/core/error.h"
#include "lacuna/nn/testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

std::vector<bool> hidden_now(const HiddenGenes& genes) {
  const auto hidden = genes.hidden().contiguous();
  return std::vector<bool>(hidden.const_data_ptr<bool>(),
                           hidden.const_data_ptr<bool>() + hidden.numel());
}

TEST(HiddenGenes, ADrawIsAFunctionOfSeedAndStep) {
  const auto rows = at::randn({4000, 3});
  HiddenGenes genes(rows, {7, 3}), others(rows, {3, 7});
  genes.train();
  others.train();
  genes.draw(0.3, /*seed=*/5, /*step=*/9);
  const auto first = hidden_now(genes);
  genes.draw(0.3, 5, 10);
  const auto next = hidden_now(genes);
  EXPECT_NE(next, first);
  genes.draw(0.3, 6, 9);
  EXPECT_NE(hidden_now(genes), first);
  at::manual_seed(99);  // not of torch's generator
  others.draw(0.3, 5, 9);
  EXPECT_EQ(hidden_now(others), first);
  int64_t count = 0, both = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    count += first[i];
    both += first[i] && next[i];
  }
  EXPECT_NEAR(double(count) / 4000, 0.3, 0.05);
  EXPECT_NEAR(double(both) / 4000, 0.09, 0.03);  // one step says nothing about the next
}

TEST(HiddenGenes, UnseenOnesAreHiddenAlwaysAndTheOthersInTrainingAlone) {
  const auto rows = at::randn({50, 3});
  HiddenGenes genes(rows, {7, 3});
  const at::NoGradGuard no_grad;
  genes.unknown.fill_(2);
  genes.draw(0.5, 1, 1);
  for (const bool training : {true, false}) {
    genes.train(training);
    const auto hidden = hidden_now(genes);
    const auto visible = genes.forward(rows);
    int count = 0;
    for (int64_t i = 0; i < 50; ++i) {
      count += hidden[size_t(i)];
      EXPECT_TRUE(at::equal(visible[i], hidden[size_t(i)] ? genes.unknown : rows[i]));
      if (!training || i == 7 || i == 3) {
        EXPECT_EQ(hidden[size_t(i)], i == 7 || i == 3);
      }
    }
    EXPECT_EQ(count > 2, training);
  }
}

TEST(HiddenGenes, AModelWithoutRowsAndGenesThatAreNoneAreRefused) {
  const GeneGraph graph = tiny_graph(1);
  const auto model = make_model(YAML::Load("{name: mlp}"), graph, 1, 1);
  EXPECT_THROW(model->hide_genes({kGenes}), Error);
  const auto count = model->parameter_count();
  model->hide_genes({1});
  EXPECT_EQ(model->parameter_count(), count + 64);
  model->hide_genes({2});  // the same row, other genes
  EXPECT_EQ(model->parameter_count(), count + 64);
  EXPECT_EQ(model->hidden_genes()->unseen(), std::vector<int64_t>({2}));
  const auto features = YAML::Load("{name: wild_type, features: instead}");
  EXPECT_THROW(make_model(features, graph, 1, 1)->hide_genes({}), Error);
}

}  // namespace
}  // namespace lacuna
