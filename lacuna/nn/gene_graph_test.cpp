#include "lacuna/nn/gene_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cstring>
#include <numeric>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/nn/model.h"
#include "lacuna/ops/masks/plain_masks.h"

namespace lacuna {
namespace {

// The rung `device`: masks made where the model computes, here the CPU.
TEST(GeneGraph, MasksMadeInPlaceAreThoseOfTheEdges) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const HeteroGraph graph = generate_graph(GraphSize::small, seed);
  const uint32_t genes = graph.genes().size();
  std::vector<std::vector<uint32_t>> samples = {{}, std::vector<uint32_t>(genes), {3, 3}};
  std::iota(samples[1].begin(), samples[1].end(), 0);  // everybody
  for (const uint32_t count : {1u, 2u, 3u, 8u, genes / 2}) {
    samples.emplace_back();
    for (uint32_t i = 0; i < count; ++i) samples.back().push_back(uint32_t(random.below(genes)));
  }
  std::vector<int32_t> removed, ptr = {0};
  for (const auto& sample : samples) {
    removed.insert(removed.end(), sample.begin(), sample.end());
    ptr.push_back(int32_t(removed.size()));
  }

  GeneGraph on_device(graph, at::kCPU);
  on_device.make_masks(graph);
  const ModelInput input = on_device.with_masks(make_input(removed, ptr));
  const MaskLayout layout(RemovalRules(graph), MaskForm::u8);
  const PlainMasks plain(graph);
  ASSERT_EQ(input.masks.size(0), int64_t(samples.size()));
  ASSERT_EQ(input.masks.size(1), int64_t(layout.stride()));
  for (size_t b = 0; b < samples.size(); ++b) {
    const auto expected = plain.record(samples[b], layout);
    const auto* made = input.masks.const_data_ptr<uint8_t>() + b * layout.stride();
    EXPECT_EQ(std::memcmp(made, expected.data(), expected.size()), 0) << "sample " << b;
  }

  GeneGraph without(graph, at::kCPU);
  const GeneGraph copy = without;
  EXPECT_FALSE(copy.with_masks(make_input(removed, ptr)).masks.defined());
  without.make_masks(graph);  // of the copy too: a model has one
  EXPECT_TRUE(copy.with_masks(make_input(removed, ptr)).masks.equal(input.masks));
  without.make_no_masks();
  EXPECT_FALSE(copy.with_masks(make_input(removed, ptr)).masks.defined());
}

// A model that forgets with_masks(): whoever wrote it is told, and it says nothing wrong elsewhere.
TEST(GeneGraph, AForgottenWithMasksIsNamed) {
  const HeteroGraph graph = generate_graph(GraphSize::tiny, 1);
  GeneGraph placed(graph, at::kCPU);
  struct Forgetful : Model {
    explicit Forgetful(const GeneGraph& g) : graph(g) {
      eps = register_parameter("eps", at::zeros({g.type_count()}));
    }
    at::Tensor forward(const ModelInput& input) override {
      const auto x = at::ones({graph.genes(), input.batch(), 4});
      return graph.gin(x, input, eps).mean(at::IntArrayRef({0, 1}));
    }
    std::map<std::string, at::Tensor> embeddings(const ModelInput&) override { return {}; }
    GeneGraph graph;
    at::Tensor eps;
  } model(placed);
  const ModelInput input = make_input(std::vector<int32_t>{3, 5}, std::vector<int32_t>{0, 1, 2});
  const at::Tensor from_genes = model.forward(input);
  placed.make_masks(graph);
  EXPECT_ERROR(model.forward(input), "call with_masks() on its input first");
  EXPECT_TRUE(model.forward(placed.with_masks(input)).allclose(from_genes));
}

}  // namespace
}  // namespace lacuna
