// HeteroGin on what differs: that its numbers are those of the plain form, and which are the same
// bits. Gradients in f64, so that what is wrong stands out from what is rounded.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lacuna/core/scope.h"
#include "lacuna/core/testing.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/merge.h"
#include "lacuna/nn/testing.h"
#include "lacuna/torch/cone.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

const char* const kMerges[] = {"sum", "mean", "attention", "pairwise"};

// So few edges that a removed gene reaches some genes by the third layer, and not all; one type has
// none at all.
GeneGraph sparse_graph(uint64_t seed) {
  Random random(seed, 3);
  HeteroGraph graph;
  std::vector<std::string> names;
  for (int64_t n = 0; n < kGenes; ++n) names.push_back("g" + std::to_string(n));
  graph.add_nodes("gene", Names(names));
  const char* type_names[] = {"few", "none", "more"};
  const uint64_t edges[] = {12, 0, 45};
  for (size_t t = 0; t < 3; ++t) {
    std::vector<uint8_t> ends(2 * edges[t]);
    for (uint8_t& end : ends) end = uint8_t(random.below(uint64_t(kGenes)));
    graph.add_edges("gene", type_names[t], "gene", Array::from(ends, {2, edges[t]}));
  }
  return GeneGraph(graph, at::kCPU);
}

std::string settings_of(const std::string& merge, int layers, const std::string& others) {
  return "{name: hetero_gin, width: 16, layers: " + std::to_string(layers) + ", merge: " + merge +
         ", " + others + "}";
}

// ---- against the plain form
void expect_same_numbers(const std::string& settings, const GeneGraph& graph, uint64_t seed,
                         const ModelInput& input) {
  const std::string open = settings.substr(0, settings.size() - 1);
  const auto saving = shaken(settings, graph, seed, 2);
  const auto plain = shaken(open + ", savings: false}", graph, seed, 2);
  const auto names = plain->named_parameters().keys();
  at::manual_seed(seed);  // of the dropout
  const auto ours = compute(*saving, input);
  at::manual_seed(seed);
  const auto expected = compute(*plain, input);
  ASSERT_EQ(ours.size(), expected.size());
  double whole = 0;  // where gradients cancel, what is left is rounding of the others'
  for (const auto& tensor : expected) whole += tensor.norm().item<double>();
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_LT((ours[i] - expected[i]).norm().item<double>(),
              1e-12 * (expected[i].norm().item<double>() + whole))
        << (i ? names[i - 1] : "prediction");
}

TEST(HeteroGinCones, NumbersAndGradientsAreThoseOfThePlainForm) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const SampleSets samples = odd_and_usual(seed);
  const std::vector<SampleSets> batches = {samples, {samples[7]}, {{}}, {{}, {}}, {samples[3]}};
  const GeneGraph graphs[] = {sparse_graph(seed), tiny_graph(seed)};
  for (const GeneGraph& graph : graphs)
    for (const std::string merge : kMerges)
      for (const int layers : {1, 2, 3})
        for (const SampleSets& batch : batches) {
          if (&graph == &graphs[1] && batch.size() < samples.size()) continue;
          const std::string settings = settings_of(merge, layers, "dropout: 0.3, output: average");
          SCOPED_TRACE(settings + ", samples: " + std::to_string(batch.size()));
          expect_same_numbers(settings, graph, seed, to_input(batch));
        }
}

TEST(HeteroGinCones, WeightedSumsAreThoseOfThePlainForm) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const ModelInput input = to_input(odd_and_usual(seed));
  for (const std::string merge : {"sum", "pairwise"})
    expect_same_numbers(
        settings_of(merge, 2, "dropout: 0.3, weights: normalised, local: wild_type"),
        sparse_graph(seed), seed, input);
}

// ---- the same bits as with every row listed
// Lists every row of a kept gene.
void list_every_row(const ConeShape& shape, Cone& cone, at::Tensor& place, at::Tensor& row,
                    at::Tensor& used) {
  const int64_t all = shape.nodes * shape.batch;
  place = place.clone();
  row = at::zeros({shape.types, all}, at::kInt);
  for (int64_t t = 0; t < shape.types; ++t) {
    int32_t count = 0;
    auto* places = place[t].mutable_data_ptr<int32_t>();
    auto* rows = row[t].mutable_data_ptr<int32_t>();
    for (int32_t i = 0; i < all; ++i) {
      if (places[i] < 0) continue;
      rows[count] = i;
      places[i] = ++count;
    }
    used[t] = shape.first() + count;
    if (shape.types == 1) row = row.narrow(1, 0, count).contiguous();  // all of `either` is in use
  }
  if (shape.types > 1) cone.shape.capacity = all;
}

Cone with_every_row(Cone cone) {
  cone.used = cone.used.clone();
  cone.either_used = cone.either_used.clone();
  ConeShape either = cone.shape;
  either.types = 1;
  list_every_row(either, cone, cone.either_place, cone.either_row, cone.either_used);
  list_every_row(cone.shape, cone, cone.place, cone.row, cone.used);
  return cone;
}

at::Tensor layer_of(const GeneGraph& graph, const Cone& cone, const at::Tensor& x,
                    const ModelInput& input, const GraphMlp& mlp, Merge& merge,
                    const at::Tensor& eps) {
  const auto y = mlp.forward(graph.gin_cone(cone, x, input, eps), cone.used);
  if (const auto share = merge.share_of_sum()) return cone_sum(cone, y, *share);
  return cone_sum(cone.either(), merge.forward(cone_gather(cone, y)).unsqueeze(0), 1);
}

TEST(HeteroGinCones, RowsHaveTheSameBitsAsWithEveryRowListed) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const GeneGraph graph = sparse_graph(seed);
  const ModelInput input = to_input(odd_and_usual(seed));
  const int64_t graphs = graph.type_count();
  const at::NoGradGuard no_grad;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble})
    for (const std::string merge_name : kMerges) {
      SCOPED_TRACE(merge_name);
      const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
      at::manual_seed(seed);
      GraphMlp mlp(graphs, kWidth, NormKind::layer);
      const auto merge = make_merge(merge_name, graphs, kWidth, NormKind::layer, at::kCPU, true);
      mlp.to(wide);
      merge->to(wide);
      const auto eps = at::randn({graphs}, wide);
      const auto cones = graph.cones(input, 3, /*wild=*/true, /*either=*/true);
      at::Tensor x = at::randn({kGenes, kWidth}, wide).to(dtype);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_LT(cones[i].listed_share(), 0.9) << "nothing is tested";
        const auto all = layer_of(graph, with_every_row(cones[i]), x, input, mlp, *merge, eps);
        x = layer_of(graph, cones[i], x, input, mlp, *merge, eps);
        EXPECT_TRUE(x.equal(all)) << "layer " << i << " in " << dtype;
      }
    }
}

// ---- the same bits in every batch
// For as long as it lives.
struct Threads {
  int before = at::get_num_threads();
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before); }
};

std::vector<at::Tensor> predict_one_by_one(Model& model, const SampleSets& samples) {
  std::vector<at::Tensor> results;
  for (const auto& sample : samples) results.push_back(model.forward(to_input({sample})));
  return results;
}

TEST(HeteroGinCones, APredictionHasTheSameBitsWhateverStandsBesideIt) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const GeneGraph graph = sparse_graph(seed);
  const SampleSets samples = odd_and_usual(seed);
  const SampleSets backwards(samples.rbegin(), samples.rend());
  const SampleSets some(samples.begin(), samples.begin() + 6);
  const at::NoGradGuard no_grad;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble})
    for (const std::string merge : kMerges)
      for (const std::string output : {"average", "gate", "local"}) {
        if (output != "average" && merge != std::string("sum")) continue;
        const std::string settings = settings_of(merge, 3, "output: " + output);
        SCOPED_TRACE(dtype);
        SCOPED_TRACE(settings);
        const auto model = shaken(settings, graph, seed, 2);
        if (dtype != at::kDouble) model->to(at::kFloat);
        if (dtype == at::kBFloat16) model->compute_in(dtype);
        model->eval();
        const auto together = model->forward(to_input(samples));
        model->keep_wild_type(true);
        EXPECT_TRUE(model->forward(to_input(samples)).equal(together)) << "wild type kept";
        const auto flipped = model->forward(to_input(backwards)).flip(0);
        EXPECT_TRUE(flipped.equal(together)) << "in another order";
        const auto alone = at::cat(predict_one_by_one(*model, some));
        EXPECT_TRUE(alone.equal(together.narrow(0, 0, alone.size(0)))) << "alone";
        model->keep_wild_type(false);
        const Threads two(2);
        EXPECT_TRUE(model->forward(to_input(samples)).equal(together)) << "two threads";
      }
}

// What is kept goes when it may change.
TEST(HeteroGinCones, AKeptWildTypeIsForgottenWithItsParameters) {
  const GeneGraph graph = sparse_graph(1);
  const auto model = shaken(settings_of("sum", 2, "output: average"), graph, 1);
  model->eval();
  const ModelInput input = to_input({{1, 2}, {3}});
  const at::NoGradGuard no_grad;
  model->keep_wild_type(true);
  const auto before = model->forward(input);
  model->keep_wild_type(false);
  for (auto& parameter : model->parameters()) parameter.mul_(1.1);
  model->keep_wild_type(true);
  const auto after = model->forward(input);
  model->keep_wild_type(false);
  EXPECT_FALSE(after.equal(before));
  EXPECT_TRUE(model->forward(input).equal(after));
}

}  // namespace
}  // namespace lacuna
