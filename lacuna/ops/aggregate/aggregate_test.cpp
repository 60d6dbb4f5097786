#include "lacuna/ops/aggregate/aggregate.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/ops/aggregate/aggregate_reference.h"
#include "lacuna/ops/closeness.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

// One call, with everything that it needs.
template <class Real>
struct Case {
  RandomGraph graph;
  RandomRemoved removed;
  Reduction options;
  int64_t width = 1;
  std::vector<Real> x, grad_out;
  std::vector<Parameter<Real>> values, eps;  // empty: none

  int64_t batch() const { return removed.view().batch(); }
  int64_t elements() const { return graph.nodes * batch() * width; }
  int64_t out_elements() const {
    return elements() * (options.sum_types ? 1 : int64_t(graph.types.size()));
  }
  AggregateCall<Real> call() const {
    return make_call(options, removed.view(), width, x, values, eps);
  }

  std::vector<Real> forward() const {
    auto out = poisoned<Real>(size_t(out_elements()));
    aggregate(graph.plan(), call(), out.data());
    return out;
  }
  struct Gradients {
    std::vector<Real> x;
    std::vector<Parameter<Real>> eps, values;
  };
  Gradients backward() const {
    Gradients grad = {poisoned<Real>(size_t(elements())), poisoned<Parameter<Real>>(eps.size()),
                      poisoned<Parameter<Real>>(values.size())};
    aggregate_backward(graph.plan(), call(),
                       {.out = grad_out.data(),
                        .x = grad.x.data(),
                        .eps = eps.empty() ? nullptr : grad.eps.data(),
                        .values = values.empty() ? nullptr : grad.values.data()});
    return grad;
  }
};

struct CaseShape {
  GraphShape graph;
  int64_t batch = 3, width = 8;
  uint32_t removed = 3;
  Reduce reduce = Reduce::sum;
  bool sum_types = false, values = false, eps = false;
};

template <class Real>
Case<Real> make_case(uint64_t seed, const CaseShape& shape) {
  Case<Real> c;
  c.graph = random_graph(seed, shape.graph);
  c.removed = random_removed(seed, shape.graph.nodes, shape.batch, shape.removed);
  c.options = {.reduce = shape.reduce, .sum_types = shape.sum_types};
  c.width = shape.width;
  c.x = random_numbers<Real>(seed, 1, c.elements());
  c.grad_out = random_numbers<Real>(seed, 2, c.out_elements());
  if (shape.values) c.values = random_numbers<Parameter<Real>>(seed, 3, c.graph.edge_count());
  if (shape.eps) c.eps = random_numbers<Parameter<Real>>(seed, 4, int64_t(c.graph.types.size()));
  return c;
}

// The reference's view of a case, with every number replaced by change(number).
template <class Real>
struct ReferenceCase {
  std::vector<EdgeList> lists;
  std::vector<double> x, values, eps, grad_out;
  ReferenceInput input;

  explicit ReferenceCase(const Case<Real>& c, const std::function<double(double)>& change)
      : lists(c.graph.lists()),
        x(to_doubles(c.x)),
        values(to_doubles(c.values)),
        eps(to_doubles(c.eps)),
        grad_out(to_doubles(c.grad_out)) {
    for (auto* numbers : {&x, &values, &grad_out})
      for (double& number : *numbers) number = change(number);
    for (double& number : eps) number = change(1 + number) - 1;  // the self term is (1 + eps) x
    input = {
        c.graph.nodes, lists, c.options.reduce, c.options.sum_types, c.width, c.removed.view(), x,
        values,        eps};
  }
};

double largest_degree(const RandomGraph& graph, bool sum_types, bool out) {
  std::vector<double> degree(graph.nodes);
  double largest = 0;
  for (const auto& [sources, targets] : graph.types) {
    for (const uint32_t node : out ? sources : targets) largest = std::max(largest, ++degree[node]);
    if (!sum_types) std::fill(degree.begin(), degree.end(), 0.0);
  }
  return largest;
}

template <class Real>
void expect_matches_reference(const Case<Real>& c) {
  const ReferenceCase<Real> plain(c, testing::same), absolute(c, testing::magnitude);
  const bool maximum = c.options.reduce == Reduce::max;
  const double types = double(c.graph.types.size());

  const auto out = aggregate_reference(plain.input);
  // A maximum has one term, but the one of absolute values is another: its bound comes from the
  // result itself.
  std::vector<double> out_magnitude = aggregate_reference(absolute.input);
  const double in_terms = largest_degree(c.graph, c.options.sum_types, false) + types;
  expect_close(c.forward(), out, {out_magnitude, in_terms});

  const auto grad = aggregate_reference_backward(plain.input, plain.grad_out);
  ReferenceInput absolute_input = absolute.input;
  if (maximum) absolute_input.x = plain.x;  // the same winners
  const auto grad_magnitude = aggregate_reference_backward(absolute_input, absolute.grad_out);
  // The dot products for eps and values want |x|, not x, and have many terms.
  const auto parameters_magnitude = aggregate_reference_backward(absolute.input, absolute.grad_out);
  const auto result = c.backward();
  const double out_terms = largest_degree(c.graph, true, true) + types;
  const double max_terms = largest_degree(c.graph, true, false) * types;
  expect_close(result.x, grad.x, {grad_magnitude.x, maximum ? out_terms + max_terms : out_terms});
  expect_close(result.eps, grad.eps, {parameters_magnitude.eps, double(c.elements())});
  expect_close(result.values, grad.values,
               {parameters_magnitude.values, double(c.batch() * c.width)});
}

template <class Real>
class AggregateTyped : public ::testing::Test {};
using Reals = ::testing::Types<float, BFloat16, double>;
TYPED_TEST_SUITE(AggregateTyped, Reals);

TYPED_TEST(AggregateTyped, MatchesTheReference) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  CaseShape shape = {.graph = {.nodes = 120, .edges = {900, 0, 60}, .self_loops = true, .hub = 80}};
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max})
    for (const bool sum_types : {false, true})
      for (const bool eps : {false, true})
        for (const bool values : {false, true}) {
          if (values && reduce != Reduce::sum) continue;
          if (sum_types && reduce == Reduce::max) continue;
          SCOPED_TRACE(fmt::format("reduce {} sum_types {} eps {} values {}", name(reduce),
                                   sum_types, eps, values));
          shape.reduce = reduce, shape.sum_types = sum_types, shape.eps = eps,
          shape.values = values;
          shape.batch = 5, shape.width = 9;
          expect_matches_reference(make_case<TypeParam>(seed, shape));
          if (this->HasFatalFailure()) return;
        }
}

TYPED_TEST(AggregateTyped, OddShapes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max})
    for (const int64_t batch : {1, 2, 29})
      for (const int64_t width : {1, 3, 8, 64, 72}) {
        SCOPED_TRACE(fmt::format("{} batch {} width {}", name(reduce), batch, width));
        expect_matches_reference(make_case<TypeParam>(
            seed, {.graph = {.nodes = 17, .edges = {60, 5}, .self_loops = width == 8},
                   .batch = batch,
                   .width = width,
                   .reduce = reduce,
                   .eps = true}));
        if (this->HasFatalFailure()) return;
      }
}

TYPED_TEST(AggregateTyped, SmallestGraphs) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const std::vector<uint64_t>& edges : {std::vector<uint64_t>{}, {0}, {0, 0}, {1}, {3, 0, 2}})
    for (const uint32_t nodes : {1u, 2u})
      for (const uint32_t removed : {0u, 2u})
        for (const bool sum_types : {false, true}) {
          SCOPED_TRACE(fmt::format("{} types, {} nodes", edges.size(), nodes));
          expect_matches_reference(
              make_case<TypeParam>(seed, {.graph = {.nodes = nodes, .edges = edges},
                                          .batch = 3,
                                          .width = 5,
                                          .removed = removed,
                                          .sum_types = sum_types,
                                          .eps = !edges.empty()}));
        }
}

TYPED_TEST(AggregateTyped, EverythingRemoved) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max}) {
    auto c = make_case<TypeParam>(
        seed, {.graph = {.nodes = 20, .edges = {100}}, .batch = 2, .width = 4, .reduce = reduce});
    std::vector<int32_t> all(20);
    std::iota(all.begin(), all.end(), 0);
    c.removed = {};
    c.removed.add(all);
    c.removed.add(std::vector<int32_t>{});
    expect_matches_reference(c);
    const auto out = c.forward();
    for (int64_t v = 0; v < 20; ++v)
      for (int64_t h = 0; h < 4; ++h) EXPECT_EQ(to_double(out[size_t(v * 8 + h)]), 0.0);
  }
}

TYPED_TEST(AggregateTyped, WideIndices) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max})
    expect_matches_reference(
        make_case<TypeParam>(seed, {.graph = {.nodes = 65537, .edges = {120000}, .hub = 2000},
                                    .batch = 2,
                                    .width = 3,
                                    .removed = 40,
                                    .reduce = reduce,
                                    .values = reduce == Reduce::sum,
                                    .eps = true}));
}

TEST(Aggregate, EveryVectorWidthMatchesTheReference) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max}) {
      const CaseShape shape = {.graph = {.nodes = 60, .edges = {500, 90}},
                               .batch = 5,
                               .width = 11,
                               .reduce = reduce,
                               .values = reduce == Reduce::sum,
                               .eps = true};
      expect_matches_reference(make_case<float>(seed, shape));
      expect_matches_reference(make_case<BFloat16>(seed, shape));
      expect_matches_reference(make_case<double>(seed, shape));
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST(Aggregate, SameBitsForEveryNumberOfThreads) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max})
    for (const int64_t width : {3, 64}) {  // one block for several threads, several blocks
      auto c = make_case<float>(seed, {.graph = {.nodes = 300, .edges = {3000, 500}},
                                       .batch = 2,
                                       .width = width,
                                       .reduce = reduce,
                                       .values = reduce == Reduce::sum,
                                       .eps = true});
      c.options.threads = 1;
      const auto out = c.forward();
      const auto grad = c.backward();
      for (const int threads : {2, 3, 3}) {
        c.options.threads = threads;
        EXPECT_TRUE(same_bits(c.forward(), out));
        const auto again = c.backward();
        EXPECT_TRUE(same_bits(again.x, grad.x));
        EXPECT_TRUE(same_bits(again.eps, grad.eps));
        EXPECT_TRUE(same_bits(again.values, grad.values));
      }
    }
}

// The plain product, by a loop of its own.
TEST(Aggregate, RemovingNothingIsThePlainProduct) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const auto c = make_case<double>(
      seed, {.graph = {.nodes = 50, .edges = {400}}, .batch = 2, .width = 3, .removed = 0});
  std::vector<double> out(c.x.size());
  const auto& [sources, targets] = c.graph.types[0];
  for (size_t e = 0; e < sources.size(); ++e)
    for (size_t i = 0; i < 6; ++i) out[targets[e] * 6 + i] += c.x[sources[e] * 6 + i];
  EXPECT_TRUE(same_bits(c.forward(), out));
}

// Moves sample b to place order[b] along the middle axis of [rows, B, H].
std::vector<float> permute_samples(const std::vector<float>& array, int64_t batch, int64_t width,
                                   const std::vector<int64_t>& order) {
  std::vector<float> moved(array.size());
  const int64_t rows = int64_t(array.size()) / (batch * width);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < width; ++h)
        moved[size_t((r * batch + order[size_t(b)]) * width + h)] =
            array[size_t((r * batch + b) * width + h)];
  return moved;
}

TEST(Aggregate, PermutingSamplesPermutesOutputs) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const std::vector<int64_t> order = {2, 0, 4, 1, 3};
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max}) {
    const auto c = make_case<float>(seed, {.graph = {.nodes = 70, .edges = {600, 100}},
                                           .batch = 5,
                                           .width = 7,
                                           .reduce = reduce,
                                           .eps = true});
    auto moved = c;
    moved.x = permute_samples(c.x, 5, 7, order);
    moved.grad_out = permute_samples(c.grad_out, 5, 7, order);
    std::vector<std::vector<int32_t>> lists(5);
    for (size_t b = 0; b < 5; ++b)
      lists[size_t(order[b])] = {c.removed.index.begin() + c.removed.ptr[b],
                                 c.removed.index.begin() + c.removed.ptr[b + 1]};
    moved.removed = {};
    for (const auto& list : lists) moved.removed.add(list);
    EXPECT_TRUE(same_bits(moved.forward(), permute_samples(c.forward(), 5, 7, order)));
    EXPECT_TRUE(same_bits(moved.backward().x, permute_samples(c.backward().x, 5, 7, order)));
  }
}

TEST(Aggregate, RemovingTwiceIsRemovingOnce) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max}) {
    auto c = make_case<float>(
        seed, {.graph = {.nodes = 40, .edges = {300}}, .batch = 2, .width = 5, .reduce = reduce});
    c.removed = {};
    c.removed.add(std::vector<int32_t>{4, 17});
    c.removed.add(std::vector<int32_t>{3});
    const auto out = c.forward();
    const auto grad = c.backward();
    c.removed = {};
    c.removed.add(std::vector<int32_t>{17, 4, 4, 17, 17});
    c.removed.add(std::vector<int32_t>{3, 3});
    EXPECT_TRUE(same_bits(c.forward(), out));
    EXPECT_TRUE(same_bits(c.backward().x, grad.x));
  }
}

TEST(Aggregate, SpareCapacityIsNotRead) {
  auto c = make_case<float>(5, {.graph = {.nodes = 40, .edges = {300}}, .batch = 2, .width = 5});
  const auto out = c.forward();
  c.removed.index.insert(c.removed.index.end(), {-1, 1 << 30});
  EXPECT_TRUE(same_bits(c.forward(), out));
}

TEST(Aggregate, RelabellingNodesCommutes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max}) {
    const auto c = make_case<float>(seed, {.graph = {.nodes = 33, .edges = {300}},
                                           .batch = 3,
                                           .width = 5,
                                           .reduce = reduce,
                                           .eps = true});
    std::vector<uint32_t> label(33);
    for (uint32_t i = 0; i < 33; ++i) label[i] = (i * 10 + 7) % 33;  // 10 and 33 share no factor
    const auto relabel_rows = [&](const std::vector<float>& array) {
      std::vector<float> moved(array.size());
      const size_t row = array.size() / 33;
      for (size_t v = 0; v < 33; ++v) std::copy_n(&array[v * row], row, &moved[label[v] * row]);
      return moved;
    };
    auto other = c;
    for (auto* ends : {&other.graph.types[0].first, &other.graph.types[0].second})
      for (uint32_t& node : *ends) node = label[node];
    for (int32_t& node : other.removed.index) node = int32_t(label[size_t(node)]);
    other.x = relabel_rows(c.x);
    other.grad_out = relabel_rows(c.grad_out);
    // The order of the edges is unchanged, and so is every bit.
    EXPECT_TRUE(same_bits(other.forward(), relabel_rows(c.forward())));
    if (reduce == Reduce::max) continue;  // its gradient adds up in the order of the targets
    EXPECT_TRUE(same_bits(other.backward().x, relabel_rows(c.backward().x)));
  }
}

TEST(Aggregate, RemovedNodeHasNoInfluence) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max}) {
    auto c = make_case<float>(seed, {.graph = {.nodes = 200, .edges = {3000}, .self_loops = true},
                                     .batch = 3,
                                     .width = 8,
                                     .reduce = reduce});
    c.removed = {};
    c.removed.add(std::vector<int32_t>{7});
    c.removed.add(std::vector<int32_t>{7, 9});
    c.removed.add(std::vector<int32_t>{});
    const auto before = c.forward();
    const auto grad = c.backward();
    for (const float poison :
         {1e6f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (size_t i = 0; i < 24; ++i) c.x[7 * 24 + i] = poison;
      const auto after = c.forward();
      bool wild_type_sees_it = false;
      for (size_t i = 0; i < after.size(); ++i) {
        if (i % 24 / 8 < 2)
          ASSERT_EQ(before[i], after[i]);
        else
          wild_type_sees_it |= !(before[i] == after[i]);
      }
      EXPECT_TRUE(wild_type_sees_it);
    }
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(grad.x[7 * 24 + i], 0.0f);
    for (size_t i = 8; i < 16; ++i) EXPECT_EQ(grad.x[9 * 24 + i], 0.0f);
  }
}

TEST(Aggregate, RemovedNodeKeepsItsSelfTerm) {
  auto c = make_case<float>(3, {.graph = {.nodes = 20, .edges = {100, 60}},
                                .batch = 1,
                                .width = 4,
                                .removed = 0,
                                .eps = true});
  c.removed = {};
  c.removed.add(std::vector<int32_t>{5});
  const auto out = c.forward();
  const auto grad = c.backward();
  for (size_t h = 0; h < 4; ++h) {
    float expected = 0;
    for (size_t t = 0; t < 2; ++t) {
      EXPECT_EQ(out[(t * 20 + 5) * 4 + h], (1 + c.eps[t]) * c.x[5 * 4 + h]);
      expected += (1 + c.eps[t]) * c.grad_out[(t * 20 + 5) * 4 + h];
    }
    EXPECT_FLOAT_EQ(grad.x[5 * 4 + h], expected);
  }
}

TEST(Aggregate, NonFiniteNumbersReachExactlyTheRowsThatSumThem) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max})
    for (const float poison :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      auto c = make_case<float>(
          seed,
          {.graph = {.nodes = 90, .edges = {200, 100}}, .batch = 4, .width = 9, .reduce = reduce});
      c.x[(11 * 4 + 2) * 9 + 5] = poison;  // node 11, sample 2, channel 5
      const ReferenceCase<float> reference(c, testing::same);
      const auto expected = aggregate_reference(reference.input);
      const auto out = c.forward();
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(std::isfinite(out[i]), std::isfinite(expected[i])) << i;
        ASSERT_EQ(std::isnan(out[i]), std::isnan(expected[i])) << i;
      }
    }
}

TEST(Aggregate, MaximumOfMinusInfinityIsNotNothing) {
  Case<float> c;
  c.graph.nodes = 3;
  c.graph.types = {{{0, 1}, {2, 2}}};  // 0 -> 2, 1 -> 2
  c.options.reduce = Reduce::max;
  c.removed.add(std::vector<int32_t>{0});
  const float least = -std::numeric_limits<float>::infinity();
  c.x = {5, least, 1};
  c.grad_out = {1, 1, 1};
  EXPECT_EQ(c.forward(), (std::vector<float>{0, 0, least}));
  EXPECT_EQ(c.backward().x, (std::vector<float>{0, 1, 0}));
}

TEST(Aggregate, MaximumsGradientGoesToTheFirstOfEquals) {
  Case<float> c;
  c.graph.nodes = 4;
  c.graph.types = {{{2, 0, 1, 0}, {3, 3, 3, 3}}};
  c.options.reduce = Reduce::max;
  c.removed.add({});
  c.x = {7, 7, 2, 9};
  c.grad_out = {0, 0, 0, 1};
  EXPECT_EQ(c.forward(), (std::vector<float>{0, 0, 0, 7}));
  EXPECT_EQ(c.backward().x, (std::vector<float>{1, 0, 0, 0}));
}

TEST(Aggregate, EmptyBatch) {
  auto c = make_case<float>(1, {.graph = {.nodes = 20, .edges = {100}}, .batch = 0, .eps = true});
  EXPECT_TRUE(c.forward().empty());
  EXPECT_EQ(c.backward().eps[0], 0.0f);
}

// The path for graphs that fit no cache, beside a plain loop; the reference would take minutes.
TEST(Aggregate, OneMillionNodesTwentyMillionEdges) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  constexpr uint32_t kNodes = 1000000;
  constexpr size_t kEdges = 20000000;
  Random random(seed);
  RandomGraph graph;
  graph.nodes = kNodes;
  graph.types.resize(1);
  auto& [sources, targets] = graph.types[0];
  for (size_t e = 0; e < kEdges; ++e) {
    const uint64_t bits = random.next();
    sources.push_back(uint32_t((bits & 0xffffffffu) * kNodes >> 32));
    targets.push_back(uint32_t((bits >> 32) * kNodes >> 32));
  }
  const auto x = random_numbers<float>(seed, 1, kNodes);
  RandomRemoved removed = random_removed(seed, kNodes, 1, 1);
  std::vector<int32_t> many(1000);
  for (int32_t& node : many) node = int32_t(random.below(kNodes));
  removed = {};
  removed.add(many);
  std::vector<bool> keep(kNodes, true);
  for (const int32_t node : many) keep[size_t(node)] = false;

  std::vector<float> expected_out(kNodes), expected_grad(kNodes);
  for (size_t e = 0; e < kEdges; ++e) {
    if (!keep[sources[e]] || !keep[targets[e]]) continue;
    expected_out[targets[e]] += x[sources[e]];
    expected_grad[sources[e]] += x[targets[e]];
  }
  const GraphPlan plan = graph.plan();
  EXPECT_EQ(plan.index_bytes(), 4u);
  auto out = poisoned<float>(kNodes), grad = poisoned<float>(kNodes);
  const auto call = make_call<float>({}, removed.view(), 1, x);
  aggregate(plan, call, out.data());
  aggregate_backward(plan, call, {.out = x.data(), .x = grad.data()});
  EXPECT_TRUE(same_bits(out, expected_out));
  EXPECT_TRUE(same_bits(grad, expected_grad));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Aggregate, BadInputIsNamed) {
  const auto c = make_case<float>(1, {.graph = {.nodes = 20, .edges = {100}}, .batch = 2});
  const auto message = [&](const std::function<void(Case<float>&)>& change) {
    Case<float> bad = c;
    change(bad);
    const std::string forward = message_of([&] { bad.forward(); });
    EXPECT_EQ(message_of([&] { bad.backward(); }), forward);
    return forward;
  };
  const auto expect_says = [](const std::string& said, const std::string& part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect_says(message([](auto& bad) { bad.removed.index[0] = 20; }), "removed[0] = 20 (sample 0)");
  expect_says(message([](auto& bad) { bad.removed.index[1] = -1; }), "removed[1] = -1 (sample 1)");
  expect_says(message([](auto& bad) { bad.removed.ptr[0] = 1; }), "ptr[0] is 1");
  expect_says(message([](auto& bad) { bad.removed.ptr[1] = 9; }), "ptr[2] = 3 is less than ptr[1]");
  expect_says(message([](auto& bad) { bad.removed.ptr[2] = 9; }), "ptr ends at 9, but removed has");
  expect_says(message([](auto& bad) {
                bad.values.resize(100);
                bad.options.reduce = Reduce::mean;
              }),
              "values cannot go with reduce 'mean'");
  expect_says(message([](auto& bad) {
                bad.options.reduce = Reduce::max;
                bad.options.sum_types = true;
              }),
              "sum_types cannot go with reduce 'max'");
  const auto message_of_call = [&](const std::function<void(AggregateCall<float>&)>& change) {
    auto call = c.call();
    change(call);
    return message_of([&] { aggregate<float>(c.graph.plan(), call, nullptr); });
  };
  expect_says(message_of_call([](auto& call) { call.x = nullptr; }), "x is missing");
  expect_says(message_of_call([](auto& call) { call.width = 0; }), "width is 0");
  expect_says(message_of_call([](auto& call) { call.keep = RemovedView(); }), "ptr is missing");
  EXPECT_EQ(reduce_from_name("gcn"), Reduce::gcn);
  expect_says(message_of([] { reduce_from_name("median"); }), "sum, mean, gcn, max");
}

}  // namespace
}  // namespace lacuna
