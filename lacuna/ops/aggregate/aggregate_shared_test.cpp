#include "lacuna/ops/aggregate/aggregate.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

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

struct Shape {
  GraphShape graph = {.nodes = 80, .edges = {700, 0, 90}, .self_loops = true, .hub = 60};
  int64_t batch = 5, width = 9;
  uint32_t removed = 4;
  Reduction options = {};
  bool values = false, eps = false;
};

template <class Real>
struct Setting {
  Shape shape;
  RandomGraph graph;
  RandomRemoved removed;
  std::vector<Real> x, grad_out;
  std::vector<Parameter<Real>> values, eps;

  Setting(uint64_t seed, const Shape& shape_)
      : shape(shape_),
        graph(random_graph(seed, shape.graph)),
        removed(random_removed(seed, shape.graph.nodes, shape.batch, shape.removed)),
        x(random_numbers<Real>(seed, 1, graph.nodes * shape.width)),
        grad_out(
            random_numbers<Real>(seed, 2,
                                 int64_t(x.size()) * shape.batch *
                                     (shape.options.sum_types ? 1 : int64_t(graph.types.size())))) {
    if (shape.values) values = random_numbers<Parameter<Real>>(seed, 3, graph.edge_count());
    if (shape.eps) eps = random_numbers<Parameter<Real>>(seed, 4, int64_t(graph.types.size()));
  }
  AggregateCall<Real> call() const {
    auto call = make_call(shape.options, removed.view(), shape.width, x, values, eps);
    call.shared = true;
    return call;
  }

  std::vector<Real> forward() const {
    auto out = poisoned<Real>(grad_out.size());
    aggregate(graph.plan(), call(), out.data());
    return out;
  }
  struct Gradients {
    std::vector<Real> x;
    std::vector<Parameter<Real>> eps, values;
  };
  Gradients backward() const {
    Gradients grad = {poisoned<Real>(x.size()), poisoned<Parameter<Real>>(eps.size()),
                      poisoned<Parameter<Real>>(values.size())};
    aggregate_backward(graph.plan(), call(),
                       {.out = grad_out.data(),
                        .x = grad.x.data(),
                        .eps = eps.empty() ? nullptr : grad.eps.data(),
                        .values = values.empty() ? nullptr : grad.values.data()});
    return grad;
  }
};

// The reference on x repeated for every sample, its gradient summed over them.
template <class Real>
struct Reference {
  std::vector<double> out;
  ReferenceGradients grad;

  Reference(const Setting<Real>& s, const std::function<double(double)>& change) {
    const auto lists = s.graph.lists();
    const int64_t batch = s.shape.batch, width = s.shape.width;
    std::vector<double> x, values = to_doubles(s.values), eps = to_doubles(s.eps);
    for (int64_t v = 0; v < s.graph.nodes; ++v)
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < width; ++h)
          x.push_back(change(to_double(s.x[size_t(v * width + h)])));
    std::vector<double> grad_out = to_doubles(s.grad_out);
    for (double& number : grad_out) number = change(number);
    for (double& number : values) number = change(number);
    for (double& number : eps) number = change(1 + number) - 1;
    const ReferenceInput input = {s.graph.nodes,
                                  lists,
                                  s.shape.options.reduce,
                                  s.shape.options.sum_types,
                                  width,
                                  s.removed.view(),
                                  x,
                                  values,
                                  eps};
    out = aggregate_reference(input);
    grad = aggregate_reference_backward(input, grad_out);
    std::vector<double> summed(s.x.size());
    for (size_t i = 0; i < grad.x.size(); ++i)
      summed[i / size_t(batch * width) * size_t(width) + i % size_t(width)] += grad.x[i];
    grad.x = summed;
  }
};

// The bound of a sum, and the rounding (in double) that a difference leaves of terms that were
// taken away.
Terms bound(std::vector<double> kept, const std::vector<double>& all, double count) {
  for (size_t i = 0; i < kept.size(); ++i) kept[i] += 0x1p-26 * all[i];
  return {std::move(kept), count};
}

template <class Real>
void expect_matches_reference(const Setting<Real>& s) {
  Setting<Real> wild_type = s;
  wild_type.removed = {};
  for (int64_t b = 0; b < s.shape.batch; ++b) wild_type.removed.add({});
  const Reference<Real> plain(s, testing::same), kept(s, testing::magnitude),
      all(wild_type, testing::magnitude);
  const double batch = double(s.shape.batch), edges = double(s.graph.edge_count());
  expect_close(s.forward(), plain.out, bound(kept.out, all.out, 4));  // one rounding, and slack
  const auto grad = s.backward();
  expect_close(grad.x, plain.grad.x, bound(kept.grad.x, all.grad.x, 4));
  expect_close(grad.eps, plain.grad.eps, bound(kept.grad.eps, all.grad.eps, edges * batch));
  expect_close(grad.values, plain.grad.values, bound(kept.grad.values, all.grad.values, 4));
}

template <class Real>
class AggregateSharedTyped : public ::testing::Test {};
using Reals = ::testing::Types<float, BFloat16, double>;
TYPED_TEST_SUITE(AggregateSharedTyped, Reals);

TYPED_TEST(AggregateSharedTyped, MatchesTheReferenceOnRepeatedX) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean})
    for (const bool sum_types : {false, true})
      for (const bool values : {false, true})
        for (const bool eps : {false, true}) {
          if (values && reduce != Reduce::sum) continue;
          SCOPED_TRACE(fmt::format("{} sum_types {} values {} eps {}", name(reduce), sum_types,
                                   values, eps));
          Shape shape;
          shape.options = {.reduce = reduce, .sum_types = sum_types};
          shape.values = values;
          shape.eps = eps;
          expect_matches_reference(Setting<TypeParam>(seed, shape));
          if (this->HasFatalFailure()) return;
        }
}

TYPED_TEST(AggregateSharedTyped, OddShapes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t batch : {1, 2, 29})
    for (const int64_t width : {1, 3, 8, 64, 72})
      for (const uint32_t nodes : {1u, 2u, 30u}) {
        SCOPED_TRACE(fmt::format("batch {} width {} nodes {}", batch, width, nodes));
        Shape shape;
        shape.graph = {.nodes = nodes, .edges = {100, 3}};
        shape.batch = batch;
        shape.width = width;
        shape.options.reduce = width == 8 ? Reduce::mean : Reduce::sum;
        shape.eps = true;
        expect_matches_reference(Setting<TypeParam>(seed, shape));
        if (this->HasFatalFailure()) return;
      }
}

TEST(AggregateShared, WideIndicesAndHubs) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Shape shape;
  shape.graph = {.nodes = 65537, .edges = {150000}, .hub = 3000};
  shape.batch = 2;
  shape.width = 3;
  shape.removed = 50;
  expect_matches_reference(Setting<float>(seed, shape));
}

TEST(AggregateShared, EverythingRemoved) {
  Shape shape;
  shape.batch = 1;
  Setting<float> s(test_seed(), shape);
  std::vector<int32_t> all(s.graph.nodes);
  std::iota(all.begin(), all.end(), 0);
  s.removed = {};
  s.removed.add(all);
  for (const float number : s.forward()) EXPECT_EQ(number, 0.0f);
  for (const float number : s.backward().x) EXPECT_EQ(number, 0.0f);
}

// A removed node's number leaves no trace, not even where it is infinite or dwarfs all others.
TEST(AggregateShared, RemovedNodeHasNoInfluence) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean})
    for (const float poison :
         {1e6f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Shape shape;
      shape.graph = {.nodes = 80, .edges = {700, 90}};
      shape.options.reduce = reduce;
      Setting<float> s(seed, shape);
      s.removed = {};
      for (int b = 0; b < 5; ++b) s.removed.add(std::vector<int32_t>{7, 9 + b});
      const auto before = s.forward();
      const auto grad = s.backward();
      for (size_t h = 0; h < 9; ++h) s.x[7 * 9 + h] = poison;
      const auto after = s.forward();
      for (size_t i = 0; i < after.size(); ++i) ASSERT_NEAR(before[i], after[i], 1e-5);
      for (size_t h = 0; h < 9; ++h) EXPECT_EQ(grad.x[7 * 9 + h], 0.0f);
    }
}

TEST(AggregateShared, NonFiniteGradientsReachExactlyTheNodesThatTheyComeFrom) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Shape shape;
  shape.graph = {.nodes = 60, .edges = {200}};
  Setting<float> s(seed, shape);
  s.removed = {};
  for (int b = 0; b < 5; ++b) s.removed.add(std::vector<int32_t>{b});
  s.grad_out[(20 * 5 + 3) * 9 + 4] = std::numeric_limits<float>::infinity();  // sample 3
  const Reference<float> reference(s, testing::same);
  const auto grad = s.backward();
  for (size_t i = 0; i < grad.x.size(); ++i)
    EXPECT_EQ(std::isfinite(grad.x[i]), std::isfinite(reference.grad.x[i])) << i;
}

TEST(AggregateShared, SameBitsForEveryNumberOfThreads) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Shape shape;
  shape.values = shape.eps = true;
  Setting<float> s(seed, shape);
  s.shape.options.threads = 1;
  const auto out = s.forward();
  const auto grad = s.backward();
  for (const int threads : {2, 3}) {
    s.shape.options.threads = threads;
    EXPECT_TRUE(same_bits(s.forward(), out));
    EXPECT_TRUE(same_bits(s.backward().x, grad.x));
    EXPECT_TRUE(same_bits(s.backward().eps, grad.eps));
    EXPECT_TRUE(same_bits(s.backward().values, grad.values));
  }
}

TEST(AggregateShared, BadInputIsNamed) {
  Shape shape;
  Setting<float> s(1, shape);
  const auto expect_error = [&](const std::string& part) {
    for (const auto& call : {std::function<void()>([&] { s.forward(); }),
                             std::function<void()>([&] { s.backward(); })})
      try {
        call();
        FAIL() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
  };
  s.shape.options.reduce = Reduce::gcn;
  expect_error("reduce 'gcn' is not offered for a shared x");
  s.shape.options.reduce = Reduce::sum;
  s.removed.index[0] = 80;
  expect_error("removed[0] = 80");
}

}  // namespace
}  // namespace lacuna
