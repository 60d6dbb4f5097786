#include "lacuna/ops/aggregate/aggregate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/graph/removal.h"
#include "lacuna/ops/closeness.h"
#include "lacuna/ops/masks/masks.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

// Mask records of a graph, edge by edge: the types one after another, with gaps.
struct Records {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> offsets;
  uint64_t stride = 64;

  Records(const RandomGraph& graph, const RandomRemoved& removed) {
    for (const auto& type : graph.types) {
      offsets.push_back(stride);
      stride += (type.first.size() + 64) / 64 * 64;
    }
    for (size_t b = 0; b + 1 < removed.ptr.size(); ++b) {
      std::vector<bool> keep(graph.nodes, true);
      for (int32_t k = removed.ptr[b]; k < removed.ptr[b + 1]; ++k)
        keep[size_t(removed.index[size_t(k)])] = false;
      std::vector<uint8_t> record(stride, 0);
      for (size_t t = 0; t < graph.types.size(); ++t)
        for (size_t e = 0; e < graph.types[t].first.size(); ++e)
          record[offsets[t] + e] =
              keep[graph.types[t].first[e]] && keep[graph.types[t].second[e]] ? 1 : 0;
      bytes.insert(bytes.end(), record.begin(), record.end());
    }
  }
  MaskView view() const { return {bytes, stride, offsets}; }
};

template <class Real>
struct MaskedSetting {
  RandomGraph graph;
  RandomRemoved removed;
  Reduction options;
  int64_t batch, width;
  std::vector<Real> x, grad_out;
  std::vector<Parameter<Real>> values, eps;

  MaskedSetting(uint64_t seed, int64_t batch_, int64_t width_, const Reduction& options_,
                bool with_values, bool with_eps)
      : graph(random_graph(seed, {.nodes = 90, .edges = {700, 0, 80}, .self_loops = true})),
        removed(random_removed(seed, 90, batch_, 4)),
        options(options_),
        batch(batch_),
        width(width_) {
    const int64_t elements = 90 * batch * width;
    x = random_numbers<Real>(seed, 1, elements);
    grad_out = random_numbers<Real>(seed, 2, elements * (options.sum_types ? 1 : 3));
    if (with_values) values = random_numbers<Parameter<Real>>(seed, 3, graph.edge_count());
    if (with_eps) eps = random_numbers<Parameter<Real>>(seed, 4, 3);
  }
  AggregateCall<Real> call(const MaskView* masks) const {
    return make_call(options, masks ? Keep(*masks) : Keep(removed.view()), width, x, values, eps);
  }

  std::vector<Real> forward(const MaskView* masks) const {
    auto out = poisoned<Real>(grad_out.size());
    aggregate(graph.plan(), call(masks), out.data());
    return out;
  }
  struct Gradients {
    std::vector<Real> x;
    std::vector<Parameter<Real>> eps, values;
  };
  Gradients backward(const MaskView* masks) const {
    Gradients grad = {poisoned<Real>(x.size()), poisoned<Parameter<Real>>(eps.size()),
                      poisoned<Parameter<Real>>(values.size())};
    aggregate_backward(graph.plan(), call(masks),
                       {.out = grad_out.data(),
                        .x = grad.x.data(),
                        .eps = eps.empty() ? nullptr : grad.eps.data(),
                        .values = values.empty() ? nullptr : grad.values.data()});
    return grad;
  }
};

template <class Real>
class AggregateMaskedTyped : public ::testing::Test {};
using Reals = ::testing::Types<float, BFloat16, double>;
TYPED_TEST_SUITE(AggregateMaskedTyped, Reals);

TYPED_TEST(AggregateMaskedTyped, SameBitsAsFromIndices) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn})
    for (const bool sum_types : {false, true})
      for (const bool values : {false, true})
        for (const int64_t width : {1, 9, 64, 72}) {
          if (values && reduce != Reduce::sum) continue;
          SCOPED_TRACE(fmt::format("{} sum_types {} values {} width {}", name(reduce), sum_types,
                                   values, width));
          const MaskedSetting<TypeParam> s(
              seed, 5, width, {.reduce = reduce, .sum_types = sum_types}, values, width != 9);
          const Records records(s.graph, s.removed);
          const MaskView masks = records.view();
          EXPECT_TRUE(same_bits(s.forward(&masks), s.forward(nullptr)));
          const auto grad = s.backward(&masks), expected = s.backward(nullptr);
          EXPECT_TRUE(same_bits(grad.x, expected.x));
          EXPECT_TRUE(same_bits(grad.eps, expected.eps));
          for (size_t e = 0; e < grad.values.size(); ++e)
            EXPECT_NEAR(grad.values[e], expected.values[e], 1e-3);
        }
}

TEST(AggregateMasked, OneFlippedByteChangesOneRow) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean}) {
    const MaskedSetting<float> s(seed, 3, 8, {.reduce = reduce}, false, true);
    Records records(s.graph, s.removed);
    const MaskView masks = records.view();
    const auto before = s.forward(&masks);
    const auto grad_before = s.backward(&masks).x;
    const size_t t = 2, e = 40, b = 1;
    const uint32_t source = s.graph.types[t].first[e], target = s.graph.types[t].second[e];
    uint8_t& byte = records.bytes[b * records.stride + records.offsets[t] + e];
    byte = byte == 0 ? 1 : 0;
    const auto after = s.forward(&masks);
    const auto grad_after = s.backward(&masks).x;
    for (size_t i = 0; i < after.size(); ++i) {
      const bool touched = i / 8 == (t * 90 + target) * 3 + b;
      EXPECT_EQ(after[i] != before[i], touched) << i;
    }
    size_t changed = 0;
    for (size_t h = 0; h < 8; ++h)
      changed += grad_after[(source * 3 + b) * 8 + h] != grad_before[(source * 3 + b) * 8 + h];
    EXPECT_EQ(changed, 8u);
  }
}

TEST(AggregateMasked, AnEdgeThatIsOffHidesNonFiniteNumbers) {
  MaskedSetting<float> s(test_seed(), 2, 3, {}, true, false);
  s.removed = {};
  s.removed.add(std::vector<int32_t>{7});
  s.removed.add(std::vector<int32_t>{7});
  for (size_t i = 0; i < 6; ++i) s.x[7 * 6 + i] = std::numeric_limits<float>::quiet_NaN();
  const Records records(s.graph, s.removed);
  const MaskView masks = records.view();
  for (const float number : s.forward(&masks)) EXPECT_TRUE(std::isfinite(number));
  for (const float number : s.backward(&masks).values) EXPECT_TRUE(std::isfinite(number));
}

// The records of masks.h, as a loader would hand them over.
TEST(AggregateMasked, ReadsTheRecordsOfABatch) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph hetero = generate_graph(GraphSize::tiny, seed);
  const RemovalRules rules(hetero);
  const MaskLayout layout(rules, MaskForm::u8);
  const MaskTable table(rules, layout);
  const RandomGraph graph = gene_graph(hetero);
  const RandomRemoved removed = random_removed(seed, graph.nodes, 6, 3);
  std::vector<uint8_t> records(6 * layout.stride());
  write_masks(layout, table, removed.view(), records.data());
  std::vector<std::string> keys;
  for (const EdgeType* edges : hetero.gene_edges()) keys.push_back(edges->key());
  const std::vector<uint64_t> offsets = layout.offsets(keys);

  const GraphPlan plan = graph.plan();
  const auto x = random_numbers<float>(seed, 1, graph.nodes * 6 * 16);
  auto out = poisoned<float>(x.size() * graph.types.size()), expected = out;
  const MaskView masks = {records, layout.stride(), offsets};
  aggregate(plan, make_call<float>({}, masks, 16, x), out.data());
  aggregate(plan, make_call<float>({}, removed.view(), 16, x), expected.data());
  EXPECT_TRUE(same_bits(out, expected));
}

TEST(AggregateMasked, BadInputIsNamed) {
  const MaskedSetting<float> s(1, 2, 4, {}, false, false);
  const Records records(s.graph, s.removed);
  const auto expect_error = [&](const MaskView& masks, const std::string& part) {
    try {
      s.forward(&masks);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  MaskView masks = records.view();
  masks.edge_offsets = masks.edge_offsets.first(2);
  expect_error(masks, "edge_offsets has 2 entries, but the graph has 3");
  masks = records.view();
  masks.records = masks.records.first(masks.records.size() - 1);
  expect_error(masks, "no whole number of records");
  const std::vector<uint64_t> far = {64, 64, records.stride - 10};
  masks = records.view();
  masks.edge_offsets = far;
  expect_error(masks, "edge_offsets[2]");
  MaskedSetting<float> maximum = s;
  maximum.options.reduce = Reduce::max;
  masks = records.view();
  EXPECT_THROW(maximum.forward(&masks), Error);
}

}  // namespace
}  // namespace lacuna
