#include "lacuna/ops/aggregate/aggregate_cuda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/ops/aggregate/aggregate_reference.h"
#include "lacuna/ops/cuda/cuda_test_support.h"

namespace lacuna {
namespace {

using namespace testing;

struct Case {
  GraphShape shape;
  uint32_t capacity = 0;  // of the slabs; 0: the gather way
  Reduce reduce = Reduce::sum;
  bool sum_types = false, values = false, eps = false;
  int64_t batch = 3, width = 16;
  uint32_t removed = 3;
};

std::string describe(const Case& c, uint64_t seed) {
  std::string text =
      "seed " + std::to_string(seed) + ", " + std::to_string(c.shape.nodes) + " nodes, types";
  for (const uint64_t e : c.shape.edges) text += " " + std::to_string(e);
  return text + ", capacity " + std::to_string(c.capacity) + ", reduce " +
         std::string(name(c.reduce)) + ", sum_types " + std::to_string(c.sum_types) + ", values " +
         std::to_string(c.values) + ", eps " + std::to_string(c.eps) + ", batch " +
         std::to_string(c.batch) + ", width " + std::to_string(c.width) + ", removed " +
         std::to_string(c.removed);
}

// One problem on both sides, with everything rounded to Real first.
template <class Real>
struct Problem {
  using P = Parameter<Real>;
  Case c;
  RandomGraph graph;
  RandomRemoved removed;
  std::vector<Real> x, grad_out;
  std::vector<P> values, eps;
  DeviceGraph device;
  DeviceRemoved device_removed;

  Problem(const Case& c_, uint64_t seed)
      : c(c_),
        graph(random_graph(seed, c.shape)),
        removed(random_removed(seed, c.shape.nodes, c.batch, c.removed)),
        x(random_numbers<Real>(seed, 1, int64_t(c.shape.nodes) * c.batch * c.width)),
        grad_out(random_numbers<Real>(seed, 2, int64_t(x.size()) * out_types())),
        device(graph, c.capacity),
        device_removed(removed) {
    if (c.values) values = random_numbers<P>(seed, 3, int64_t(graph.edge_count()));
    if (c.eps) eps = random_numbers<P>(seed, 4, int64_t(c.shape.edges.size()));
  }
  int64_t out_types() const { return c.sum_types ? 1 : int64_t(c.shape.edges.size()); }

  // The reference wants doubles and edge lists that stay.
  std::vector<EdgeList> lists = graph.lists();
  std::vector<double> x_d, values_d, eps_d;
  ReferenceInput reference() {
    x_d = to_doubles(x);
    values_d = to_doubles(values);
    eps_d = to_doubles(eps);
    return {c.shape.nodes,  lists, c.reduce, c.sum_types, c.width,
            removed.view(), x_d,   values_d, eps_d};
  }
};

template <class Real>
std::vector<Real> forward(const Problem<Real>& p, int32_t* error_word = nullptr) {
  const Case& c = p.c;
  const DeviceArray<Real> x(p.x), out(p.x.size() * size_t(p.out_types()));
  const DeviceArray<Parameter<Real>> values(p.values), eps(p.eps);
  const auto call =
      device_call({c.reduce, c.sum_types}, p.device_removed.nodes(), c.width, x, values, eps);
  const DeviceArray<std::byte> workspace(aggregate_cuda_workspace(p.device.view(), call));
  const DeviceArray<int32_t> error(std::vector<int32_t>{0});
  aggregate_cuda(p.device.view(), call, out.data(),
                 {.workspace = workspace.data(), .error = error.data()});
  const std::vector<Real> result = out.host();
  if (error_word != nullptr) {
    *error_word = error.host()[0];
  } else {
    EXPECT_EQ(error.host()[0], 0);
  }
  return result;
}

template <class Real>
struct Gradients {
  std::vector<Real> x;
  std::vector<Parameter<Real>> eps, values;
};
template <class Real>
Gradients<Real> backward(const Problem<Real>& p) {
  const Case& c = p.c;
  const DeviceArray<Real> x(p.x), grad_out(p.grad_out), grad_x(p.x.size());
  const DeviceArray<Parameter<Real>> values(p.values), eps(p.eps), grad_values(p.values.size()),
      grad_eps(p.eps.size());
  const auto call =
      device_call({c.reduce, c.sum_types}, p.device_removed.nodes(), c.width, x, values, eps);
  const DeviceArray<std::byte> workspace(aggregate_cuda_workspace(p.device.view(), call));
  aggregate_backward_cuda(p.device.view(), call,
                          {.out = grad_out.data(),
                           .x = grad_x.data(),
                           .eps = c.eps ? grad_eps.data() : nullptr,
                           .values = c.values ? grad_values.data() : nullptr},
                          {.workspace = workspace.data()});
  return {grad_x.host(), grad_eps.host(), grad_values.host()};
}

// |got - want| / |want| in norm. NaN never passes.
template <class Real>
double distance(const std::vector<Real>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double apart = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = to_double(got[i]) - want[i];
    apart += d * d;
    size += want[i] * want[i];
  }
  return size == 0 ? std::sqrt(apart) : std::sqrt(apart / size);
}
template <class Real>
double tolerance() {
  return std::is_same_v<Real, double> ? 1e-12 : std::is_same_v<Real, float> ? 1e-6 : 4e-3;
}

// Element by element: 2 deg 2^-24 of the sum of sizes, 2^-8 of the result for bf16, and what the
// self term rounds.
template <class Real>
void expect_close_elements(Problem<Real>& p, const std::vector<Real>& got,
                           const std::vector<double>& want) {
  if (p.c.reduce != Reduce::sum || std::is_same_v<Real, double>) return;
  auto absolute = p.reference();
  for (double& v : p.x_d) v = std::abs(v);
  for (double& v : p.values_d) v = std::abs(v);
  for (double& v : p.eps_d) v = std::abs(1 + v) - 1;
  const std::vector<double> sizes = aggregate_reference(absolute);
  std::vector<uint32_t> degree(p.c.shape.nodes);
  for (const EdgeList& list : p.lists) {
    for (const uint32_t v : list.targets) ++degree[v];
  }
  const size_t columns = size_t(p.c.batch * p.c.width);
  size_t wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const uint32_t d = degree[i / columns % p.c.shape.nodes] + 2;
    double bound = 2 * d * 0x1p-24 * sizes[i];
    if (std::is_same_v<Real, BFloat16>) bound += 0x1p-8 * std::abs(want[i]);
    wrong += !(std::abs(to_double(got[i]) - want[i]) <= bound);
  }
  EXPECT_EQ(wrong, 0u) << "of " << want.size() << " elements are outside of the bound";
}

template <class Real>
void expect_right(const Case& c) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(describe(c, seed));
  Problem<Real> p(c, seed);
  const std::vector<double> want = aggregate_reference(p.reference());
  const std::vector<Real> got = forward(p);
  EXPECT_LT(distance(got, want), tolerance<Real>());
  expect_close_elements(p, got, want);
  const ReferenceGradients want_grad =
      aggregate_reference_backward(p.reference(), to_doubles(p.grad_out));
  const Gradients<Real> got_grad = backward(p);
  EXPECT_LT(distance(got_grad.x, want_grad.x), tolerance<Real>());
  if (c.eps) {
    EXPECT_LT(distance(got_grad.eps, want_grad.eps), std::max(1e-5, tolerance<Real>()));
  }
  if (c.values) {
    EXPECT_LT(distance(got_grad.values, want_grad.values), tolerance<Real>());
  }
}

const GraphShape kSmall = {.nodes = 200, .edges = {3000, 0, 500}, .hub = 150};
const GraphShape kLongRows = {.nodes = 3000, .edges = {20000, 3000}, .hub = 2900};

TEST(AggregateCuda, GatherIsRightForEveryReductionAndType) {
  LACUNA_NEEDS_GPU();
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn, Reduce::max}) {
    for (const bool eps : {false, true}) {
      for (const int64_t width : {1, 5, 8, 64, 72}) {
        Case c = {.shape = kSmall, .reduce = reduce, .eps = eps, .batch = 5, .width = width};
        expect_right<double>(c);
        expect_right<float>(c);
        expect_right<BFloat16>(c);
        c.sum_types = true;
        if (reduce != Reduce::max) expect_right<float>(c);
        c.sum_types = false;
        c.values = true;
        if (reduce == Reduce::sum) {
          expect_right<double>(c);
          expect_right<float>(c);
          expect_right<BFloat16>(c);
        }
      }
    }
  }
}

TEST(AggregateCuda, GatherIsRightForLongRowsAndManySamples) {
  LACUNA_NEEDS_GPU();
  expect_right<float>({.shape = kLongRows, .batch = 7, .width = 24});
  expect_right<BFloat16>(
      {.shape = kLongRows, .values = true, .eps = true, .batch = 2, .width = 64});
  expect_right<float>({.shape = kLongRows, .sum_types = true, .batch = 1, .width = 8});
  expect_right<float>({.shape = kSmall, .batch = 70, .width = 4, .removed = 190});
  expect_right<BFloat16>({.shape = kSmall, .batch = 40, .width = 8, .removed = 0});
}

TEST(AggregateCuda, SlabsAreRight) {
  LACUNA_NEEDS_GPU();
  for (const uint32_t capacity : {6000u, 104u, 64u}) {  // one tile, two, four
    for (const bool eps : {false, true}) {
      for (const int64_t width : {8, 16, 24, 64}) {
        for (const int64_t batch : {1, 3, 260}) {
          const Case c = {.shape = kSmall,
                          .capacity = capacity,
                          .eps = eps,
                          .batch = batch,
                          .width = width,
                          .removed = 20};
          expect_right<BFloat16>(c);
        }
      }
    }
  }
  expect_right<BFloat16>(
      {.shape = kLongRows, .capacity = 6000, .eps = true, .batch = 33, .width = 64});
  expect_right<BFloat16>(
      {.shape = kLongRows, .capacity = 1000, .eps = true, .batch = 33, .width = 64});
  expect_right<BFloat16>({.shape = kSmall,
                          .capacity = 6000,
                          .reduce = Reduce::mean,
                          .eps = true,
                          .batch = 5,
                          .width = 24});
  expect_right<BFloat16>({.shape = {.nodes = 50, .edges = {400}},
                          .capacity = 6000,
                          .eps = true,
                          .batch = 200,
                          .width = 16});
}

TEST(AggregateCuda, RowsAreRight) {
  LACUNA_NEEDS_GPU();
  for (const uint32_t capacity : {6000u, 104u, 64u}) {  // one tile, two, four
    for (const bool eps : {false, true}) {
      for (const bool values : {false, true}) {
        for (const int64_t width : {4, 8, 20, 64}) {
          for (const int64_t batch : {1, 3, 70}) {
            const Case c = {.shape = kSmall,
                            .capacity = capacity,
                            .values = values,
                            .eps = eps,
                            .batch = batch,
                            .width = width,
                            .removed = 20};
            expect_right<float>(c);
            if (values) expect_right<BFloat16>(c);
          }
        }
      }
    }
  }
  for (const uint32_t capacity : {6000u, 1000u}) {
    for (const bool values : {false, true}) {
      const Case c = {.shape = kLongRows,
                      .capacity = capacity,
                      .values = values,
                      .eps = true,
                      .batch = 33,
                      .width = 64};
      expect_right<float>(c);
      if (values) expect_right<BFloat16>(c);
    }
  }
  expect_right<float>({.shape = kSmall,
                       .capacity = 6000,
                       .reduce = Reduce::mean,
                       .eps = true,
                       .batch = 5,
                       .width = 12});
}

// Every way on a graph so small that compute-sanitizer can follow.
TEST(AggregateCuda, SmallCasesOfEveryWay) {
  LACUNA_NEEDS_GPU();
  for (const uint32_t capacity : {6000u, 24u, 0u}) {  // one tile, three, the gather way
    for (const bool values : {false, true}) {
      const Case c = {.shape = {.nodes = 50, .edges = {300, 40, 100}, .hub = 45},
                      .capacity = capacity,
                      .values = values,
                      .eps = true,
                      .batch = 81,
                      .width = 16};
      expect_right<float>(c);
      expect_right<BFloat16>(c);
    }
  }
}

// As many nodes as fit into one slab of this device, and one more; all removed from some samples.
TEST(AggregateCuda, AtTheLimitOfSharedMemory) {
  LACUNA_NEEDS_GPU();
  int bytes = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
            cudaSuccess);
  uint32_t most = 8;
  while (slab_capacity(uint64_t(bytes), most + 8, 2) >= most + 8) most += 8;
  for (const uint32_t nodes : {most, most + 1}) {
    const uint32_t capacity = slab_capacity(uint64_t(bytes), nodes, 2);
    const Case c = {.shape = {.nodes = nodes, .edges = {6000, 1000}, .hub = 2000},
                    .capacity = capacity,
                    .eps = true,
                    .batch = 20,
                    .width = 64};
    const Problem<BFloat16> p(c, 1);
    const AggregateCall<BFloat16> call = {.keep = p.device_removed.nodes(), .width = 64};
    EXPECT_EQ(aggregate_cuda_path(p.device.view(), call, CudaPass::forward), CudaPath::slab_tensor);
    EXPECT_EQ(p.device.slabs->forward().panel_count, nodes <= most ? 1u : 2u);
    expect_right<BFloat16>(c);
    expect_right<float>(c);
    Case all = c;
    all.removed = nodes;
    all.values = true;
    expect_right<BFloat16>(all);
  }
}

TEST(AggregateCuda, TakesTheWayItShould) {
  LACUNA_NEEDS_GPU();
  const Problem<BFloat16> p({.shape = kSmall, .capacity = 6000, .batch = 28, .width = 64}, 1);
  const float value = 1;
  const auto way = [&](CudaPass pass, bool values, int64_t width) {
    const AggregateCall<BFloat16> call = {
        .keep = p.device_removed.nodes(), .width = width, .values = values ? &value : nullptr};
    return aggregate_cuda_path(p.device.view(), call, pass);
  };
  EXPECT_EQ(way(CudaPass::forward, false, 64), CudaPath::slab_tensor);
  EXPECT_EQ(way(CudaPass::backward, false, 64), CudaPath::slab_tensor);
  EXPECT_EQ(way(CudaPass::forward, false, 60), CudaPath::gather);
  EXPECT_EQ(way(CudaPass::forward, true, 64), CudaPath::slab_rows);
  EXPECT_EQ(way(CudaPass::backward, true, 64), CudaPath::slab_rows);
  const auto way_f32 = [&](CudaPass pass, bool values, int64_t width) {
    const AggregateCall<float> call = {
        .keep = p.device_removed.nodes(), .width = width, .values = values ? &value : nullptr};
    return aggregate_cuda_path(p.device.view(), call, pass);
  };
  EXPECT_EQ(way_f32(CudaPass::forward, false, 60), CudaPath::slab_rows);
  EXPECT_EQ(way_f32(CudaPass::backward, true, 64), CudaPath::slab_rows);
  EXPECT_EQ(way_f32(CudaPass::backward, true, 62), CudaPath::gather);
}

template <class Real>
void expect_same_bits(uint32_t capacity, bool values) {
  const Problem<Real> p({.shape = kLongRows,
                         .capacity = capacity,
                         .values = values,
                         .eps = true,
                         .batch = 40,
                         .width = 64},
                        test_seed());
  const auto out = forward(p);
  const auto grad = backward(p);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(std::memcmp(out.data(), forward(p).data(), out.size() * sizeof(Real)), 0);
    const auto again = backward(p);
    EXPECT_EQ(std::memcmp(grad.x.data(), again.x.data(), again.x.size() * sizeof(Real)), 0);
    EXPECT_EQ(grad.eps, again.eps);
    EXPECT_EQ(grad.values, again.values);
  }
}
// x and out that start in the middle of 16 bytes.
template <class Real>
void expect_right_unaligned(bool values) {
  const Case c = {.shape = kSmall, .capacity = 6000, .values = values, .batch = 3, .width = 16};
  Problem<Real> p(c, test_seed());
  std::vector<Real> moved(1, Real(0.f));
  moved.insert(moved.end(), p.x.begin(), p.x.end());
  const DeviceArray<Real> x(moved), out(p.x.size() * size_t(p.out_types()) + 1);
  const DeviceArray<Parameter<Real>> weights(p.values), no_eps(0);
  auto call = device_call<Real>({}, p.device_removed.nodes(), c.width, x, weights, no_eps);
  call.x = x.data() + 1;
  const DeviceArray<std::byte> workspace(aggregate_cuda_workspace(p.device.view(), call));
  aggregate_cuda(p.device.view(), call, out.data() + 1, {.workspace = workspace.data()});
  std::vector<Real> got = out.host();
  got.erase(got.begin());
  EXPECT_LT(distance(got, aggregate_reference(p.reference())), tolerance<Real>());
}
TEST(AggregateCuda, UnalignedArraysAreRight) {
  LACUNA_NEEDS_GPU();
  for (const bool values : {false, true}) {
    expect_right_unaligned<float>(values);
    expect_right_unaligned<BFloat16>(values);
  }
}

TEST(AggregateCuda, SameBitsInEveryRun) {
  LACUNA_NEEDS_GPU();
  for (const uint32_t capacity : {0u, 6000u, 1000u}) {
    expect_same_bits<BFloat16>(capacity, false);
    expect_same_bits<BFloat16>(capacity, true);
    expect_same_bits<float>(capacity, false);
  }
}

// An infinity or a NaN is where the reference has one, and nowhere else.
template <class Real>
void expect_non_finite_in_place(uint32_t capacity, bool values) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity) +
               ", values " + std::to_string(values));
  Problem<Real> p({.shape = {.nodes = 200, .edges = {600, 400}},
                   .capacity = capacity,
                   .values = values,
                   .eps = true,
                   .batch = 20,
                   .width = 64,
                   .removed = 3},
                  seed);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  Random random(seed, 9);
  for (int i = 0; i < 20; ++i) {
    // A large number stays finite beside an infinity: with values it must not overflow first.
    const float odd[] = {infinity, -infinity, nan, values ? 1e37f : 3e38f};
    p.x[random.below(p.x.size())] = Real(odd[i % 4]);
    p.grad_out[random.below(p.grad_out.size())] = Real(odd[i % 4]);
  }
  // A removed row's never does: the first removed node of each sample is not a number anywhere.
  for (int64_t b = 0; b < p.c.batch; ++b) {
    if (p.removed.ptr[size_t(b)] == p.removed.ptr[size_t(b) + 1]) continue;
    const int64_t node = p.removed.index[size_t(p.removed.ptr[size_t(b)])];
    p.x[size_t((node * p.c.batch + b) * p.c.width)] = Real(nan);
    if (!values) continue;
    // Nor does an edge that starts or ends there, whatever its value is.
    for (size_t e = 0; e < p.lists[0].sources.size(); ++e) {
      if (p.lists[0].sources[e] == node && e % 3 == 0) p.values[e] = infinity;
    }
  }
  const auto check_places = [](const std::vector<Real>& got, const std::vector<double>& want) {
    size_t wrong = 0, odd = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double g = to_double(got[i]);
      if (std::isnan(want[i])) {
        wrong += !std::isnan(g);
        ++odd;
      } else if (std::isinf(want[i]) || std::abs(want[i]) > 3.38e38) {
        wrong += !(std::abs(g) > 3.3e38);
        ++odd;
      } else {
        wrong += !(std::abs(g - want[i]) <= 0.02 * std::abs(want[i]) + 0.05);
      }
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(odd, 10u);
  };
  check_places(forward(p), aggregate_reference(p.reference()));
  check_places(backward(p).x,
               aggregate_reference_backward(p.reference(), to_doubles(p.grad_out)).x);
}
TEST(AggregateCuda, NonFiniteReachesExactlyTheRowsThatSumIt) {
  LACUNA_NEEDS_GPU();
  for (const uint32_t capacity : {0u, 6000u, 64u}) {
    expect_non_finite_in_place<BFloat16>(capacity, false);
    expect_non_finite_in_place<BFloat16>(capacity, true);
    expect_non_finite_in_place<float>(capacity, false);
    expect_non_finite_in_place<float>(capacity, true);
  }
}

TEST(AggregateCuda, BadIndicesAreSkippedAndReported) {
  LACUNA_NEEDS_GPU();
  for (const uint32_t capacity : {0u, 6000u}) {
    Problem<BFloat16> p({.shape = kSmall, .capacity = capacity, .batch = 4, .width = 8}, 5);
    int32_t word = 0;
    const auto good = forward(p, &word);
    EXPECT_EQ(word, 0);
    EXPECT_NO_THROW(check_cuda_error_word(word));
    std::vector<int32_t> index = p.removed.index, ptr = p.removed.ptr;
    index.push_back(200);
    index.push_back(-1);
    ptr.back() += 2;
    p.device_removed.index = DeviceArray<int32_t>(index);
    p.device_removed.ptr = DeviceArray<int32_t>(ptr);
    const auto skipped = forward(p, &word);
    EXPECT_EQ(word, kBadRemovedIndex);
    EXPECT_THROW(check_cuda_error_word(word), Error);
    EXPECT_EQ(std::memcmp(good.data(), skipped.data(), good.size() * 2), 0);
    ptr.back() += 1;  // past the capacity
    p.device_removed.ptr = DeviceArray<int32_t>(ptr);
    forward(p, &word);
    EXPECT_EQ(word, kBadRemovedPtr);
    EXPECT_THROW(check_cuda_error_word(word), Error);
  }
}

TEST(AggregateCuda, WideIndices) {
  LACUNA_NEEDS_GPU();
  const Case c = {.shape = {.nodes = 70000, .edges = {200000, 1000}, .hub = 3000},
                  .eps = true,
                  .batch = 2,
                  .width = 8};
  expect_right<float>(c);
  expect_right<BFloat16>(c);
}

TEST(AggregateCuda, RefusesWhatCannotWork) {
  LACUNA_NEEDS_GPU();
  Problem<float> p({.shape = kSmall, .reduce = Reduce::mean, .values = true}, 1);
  EXPECT_THROW(forward(p), Error);
  p.c.values = false;
  p.c.reduce = Reduce::max;
  p.c.sum_types = true;
  EXPECT_THROW(forward(p), Error);
}

}  // namespace
}  // namespace lacuna
