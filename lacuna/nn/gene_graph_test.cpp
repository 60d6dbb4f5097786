#include "lacuna/nn/gene_graph.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/ops/plain_masks.h"

namespace lacuna {
namespace {

// The rung `device`: masks made where the model computes, here the CPU.
TEST(GeneGraph, MasksMadeInPlaceAreThoseOfTheEdges) {
  const uint64_t seed = fresh_seed();
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

  const GeneGraph on_device(graph, at::kCPU, nullptr, /*makes_masks=*/true);
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
}

}  // namespace
}  // namespace lacuna
