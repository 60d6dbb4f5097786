// cone_cuda.h against cone.h, which has its own test against plain loops.
#include "lacuna/ops/cone/cone_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/testing.h"
#include "lacuna/ops/cone/cone_testing.h"
#include "lacuna/ops/cuda/cuda_test_support.h"

namespace lacuna {
namespace {

using namespace testing;

// A layer's lists, and those of all types together.
struct HostLists {
  std::vector<int32_t> place, row, used;

  HostLists(const ConeShape& shape)
      : place(size_t(shape.types * shape.nodes * shape.batch)),
        row(size_t(shape.types * shape.capacity)),
        used(size_t(shape.types)) {}
  ConeLists view() { return {place.data(), row.data(), used.data()}; }
};
struct GpuLists {
  DeviceArray<int32_t> place, row, used;

  GpuLists(const ConeShape& shape)
      : place(size_t(shape.types * shape.nodes * shape.batch)),
        row(size_t(shape.types * shape.capacity)),
        used(size_t(shape.types)) {}
  ConeLists view() const { return {place.data(), row.data(), used.data()}; }
};
ConeShape together(const ConeMarks& marks, int64_t room) {
  return {marks.nodes, 1, marks.batch, marks.either().counts()[0] + room};
}

// Everything that cone.h computes for a setting.
template <class Real>
struct Results {
  std::vector<int32_t> place, row, used;
  std::vector<Real> u, grad_x, out, grad_y, gathered, grad_gathered;
  std::vector<Parameter<Real>> grad_eps;
};

// What cone_gather() reads back: its gradient, [T, N + D, H] with D all in use.
template <class Real>
std::vector<Real> gather_gradient(const ConeSetting<Real>& s) {
  const int64_t rows = s.shape.nodes + together(s.marks, 0).capacity;
  return random_numbers<Real>(7, 6, s.shape.types * rows * s.width);
}

template <class Real>
Results<Real> on_cpu(const ConeSetting<Real>& s) {
  Results<Real> r;
  HostLists of_types(s.shape), either(together(s.marks, 0));
  r.u.resize(s.grad_u.size());
  r.grad_x.resize(s.x.size());
  r.grad_eps.resize(s.eps.size());
  r.out.resize(s.grad_out.size());
  r.grad_y.resize(s.y.size());
  const ConeLists lists = of_types.view();
  const GraphPlan plan = s.graph.plan();
  cone_lists(mark_cone(plan, s.removed.view(), 1), s.shape, lists, 1);
  const ConeShape both = together(s.marks, 0);
  cone_lists(s.marks.either(), both, either.view(), 1);
  const ConeCall<Real> call = s.call(lists);
  cone_aggregate(plan, call, r.u.data());
  cone_aggregate_backward(plan, call, s.grad_u.data(), r.grad_x.data(), r.grad_eps.data());
  const Real* nowhere = nullptr;  // the wild type's rows stand in front
  cone_sum(s.shape, lists, s.width, s.share, s.y.data(), nowhere, r.out.data(), 1);
  cone_sum_backward(s.shape, lists, s.width, s.share, s.grad_out.data(), r.grad_y.data(), 1);
  const std::vector<Real> gradient = gather_gradient(s);
  r.gathered.resize(gradient.size());
  r.grad_gathered.resize(s.y.size());
  cone_gather(s.shape, lists, either.view(), both.capacity, s.width, s.y.data(), nowhere,
              r.gathered.data(), 1);
  cone_gather_backward(s.shape, lists, either.view(), both.capacity, s.width, gradient.data(),
                       r.grad_gathered.data(), 1);
  r.place = of_types.place;
  r.row = of_types.row;
  r.used = of_types.used;
  return r;
}

template <class Real>
Results<Real> on_gpu(const ConeSetting<Real>& s) {
  const DeviceGraph graph(s.graph, 0);
  const DeviceArray<int32_t> index(s.removed.index), ptr(s.removed.ptr);
  const CudaRemoved removed = {index.data(), ptr.data(), int64_t(index.size()), s.shape.batch};
  const ConeShape both = together(s.marks, 0);
  const GpuLists of_types(s.shape), either(both);
  const DeviceArray<int32_t> error(std::vector<int32_t>{0});
  const std::vector<Real> gradient = gather_gradient(s);
  const DeviceArray<Real> x(s.x), y(s.y), grad_u(s.grad_u), grad_out(s.grad_out),
      u(s.grad_u.size()), grad_x(s.x.size()), out(s.grad_out.size()), grad_y(s.y.size()),
      grad_gathered(gradient), gathered(gradient.size()), grad_y_gathered(s.y.size());
  const DeviceArray<Parameter<Real>> eps(s.eps), grad_eps(s.eps.size());
  const DeviceArray<std::byte> workspace(
      std::max(cone_lists_workspace(s.shape), cone_aggregate_workspace(s.shape, s.width)));
  const CudaLaunch launch = {nullptr, workspace.data(), error.data()};
  const ConeLists lists = of_types.view();
  const ConeLayer layer = {s.shape, lists, either.view(), both.capacity};
  cone_lists_cuda(graph.view(), removed, {&layer, 1}, launch);
  const auto clear = [&](const DeviceArray<Real>& rows) {
    cone_clear_cuda(s.shape.types, s.shape.rows(), s.width, lists.used, false, rows.data(), launch);
  };
  cone_aggregate_cuda(graph.view(), s.shape, lists, s.width, x.data(), eps.data(), u.data(),
                      launch);
  clear(u);
  cone_aggregate_backward_cuda(graph.view(), s.shape, lists, s.width, x.data(), eps.data(),
                               grad_u.data(), grad_x.data(), grad_eps.data(), launch);
  cone_sum_cuda(s.shape, lists, s.width, s.share, y.data(), out.data(), launch);
  cone_sum_backward_cuda(s.shape, lists, s.width, s.share, grad_out.data(), grad_y.data(), launch);
  clear(grad_y);
  cone_gather_cuda(s.shape, lists, either.view(), both.capacity, s.width, y.data(), gathered.data(),
                   launch);
  cone_gather_backward_cuda(s.shape, lists, either.view(), both.capacity, s.width,
                            grad_gathered.data(), grad_y_gathered.data(), launch);
  clear(grad_y_gathered);
  EXPECT_EQ(error.host()[0], 0);
  return {of_types.place.host(),  of_types.row.host(), of_types.used.host(), u.host(),
          grad_x.host(),          out.host(),          grad_y.host(),        gathered.host(),
          grad_y_gathered.host(), grad_eps.host()};
}

template <class Real>
void expect_near(const char* what, const std::vector<Real>& got, const std::vector<Real>& wanted) {
  // Sums of up to thousands of numbers near 1 in another order, in f32 where they are f32; what is
  // rounded to bf16 may end one step away.
  const double step = sizeof(Real) == 2 ? 1.0 / 128 : sizeof(Real) == 4 ? 5e-4 : 1e-11;
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = to_double(wanted[i]);
    ASSERT_NEAR(to_double(got[i]), want, step * (1 + std::abs(want))) << what << " " << i;
  }
}

template <class Real>
void expect_same_as_cpu() {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c :
       {ConeCase{}, ConeCase{.batch = 1, .width = 3, .removed = 1},
        ConeCase{.batch = 33, .width = 64, .removed = 2},
        ConeCase{.batch = 3, .width = 520, .removed = 2},
        ConeCase{.graph = {.nodes = 12, .edges = {40}}, .batch = 4, .removed = 12},
        ConeCase{.graph = {.nodes = 9, .edges = {0, 0}}, .batch = 3},
        ConeCase{.graph = {.nodes = 700, .edges = {9000, 20000}, .hub = 600}, .batch = 28}}) {
    SCOPED_TRACE(::testing::Message() << "batch " << c.batch << ", width " << c.width);
    const ConeSetting<Real> s(seed, c);
    const Results<Real> wanted = on_cpu(s), got = on_gpu(s), again = on_gpu(s);
    EXPECT_EQ(got.place, wanted.place);
    EXPECT_EQ(got.used, wanted.used);
    for (int64_t t = 0; t < s.shape.types; ++t)
      for (int64_t e = 0; e < wanted.used[size_t(t)] - s.shape.nodes; ++e)
        EXPECT_EQ(got.row[size_t(t * s.shape.capacity + e)],
                  wanted.row[size_t(t * s.shape.capacity + e)]);
    expect_near("u", got.u, wanted.u);
    expect_near("grad_x", got.grad_x, wanted.grad_x);
    expect_near("out", got.out, wanted.out);
    expect_near("grad_y", got.grad_y, wanted.grad_y);
    expect_near("gathered", got.gathered, wanted.gathered);
    expect_near("gradient of what was gathered", got.grad_gathered, wanted.grad_gathered);
    for (size_t t = 0; t < s.eps.size(); ++t)
      EXPECT_NEAR(double(got.grad_eps[t]), double(wanted.grad_eps[t]),
                  1e-3 * (1 + std::abs(double(wanted.grad_eps[t]))));
    const auto bytes = [](const auto& v) {
      return std::vector<char>(reinterpret_cast<const char*>(v.data()),
                               reinterpret_cast<const char*>(v.data() + v.size()));
    };
    EXPECT_EQ(bytes(got.gathered), bytes(wanted.gathered));
    EXPECT_EQ(bytes(got.grad_gathered), bytes(again.grad_gathered));
    EXPECT_EQ(bytes(got.grad_x), bytes(again.grad_x));
    EXPECT_EQ(bytes(got.grad_eps), bytes(again.grad_eps));
  }
}

TEST(ConeCuda, AgreesWithTheCpuInBf16) {
  LACUNA_NEEDS_GPU();
  expect_same_as_cpu<BFloat16>();
}
TEST(ConeCuda, AgreesWithTheCpuInF32) {
  LACUNA_NEEDS_GPU();
  expect_same_as_cpu<float>();
}
TEST(ConeCuda, AgreesWithTheCpuInF64) {
  LACUNA_NEEDS_GPU();
  expect_same_as_cpu<double>();
}

// Places, counts, and rows as far as they are in use.
void expect_same_lists(const ConeShape& shape, const GpuLists& got, const HostLists& wanted) {
  EXPECT_EQ(got.place.host(), wanted.place);
  EXPECT_EQ(got.used.host(), wanted.used);
  const auto row = got.row.host();
  for (int64_t t = 0; t < shape.types; ++t)
    for (int64_t e = 0; e < wanted.used[size_t(t)] - shape.first(); ++e)
      ASSERT_EQ(row[size_t(t * shape.capacity + e)], wanted.row[size_t(t * shape.capacity + e)]);
}

// Lists of three layers at once against those of the CPU.
void expect_same_layers(uint64_t seed, const ConeCase& c) {
  const ConeSetting<float> s(seed, c);
  std::vector<HostLists> wanted, wanted_either;
  std::vector<GpuLists> lists, either;
  std::vector<ConeLayer> layers;
  ConeMarks marks = s.marks;
  for (int i = 0; i < 3; ++i) {
    if (i > 0) marks = mark_next(s.graph.plan(), marks, 1);
    ConeShape shape = s.shape, both = together(marks, 2);
    shape.capacity = std::ranges::max(marks.counts()) + i;
    wanted.emplace_back(shape);
    wanted_either.emplace_back(both);
    cone_lists(marks, shape, wanted.back().view(), 1);
    cone_lists(marks.either(), both, wanted_either.back().view(), 1);
    lists.emplace_back(shape);
    either.emplace_back(both);
    layers.push_back({shape, {}, {}, both.capacity});
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].lists = lists[i].view();
    layers[i].either = either[i].view();
  }
  const DeviceGraph graph(s.graph, 0);
  const DeviceArray<int32_t> index(s.removed.index), ptr(s.removed.ptr),
      error(std::vector<int32_t>{0});
  const DeviceArray<std::byte> workspace(cone_lists_workspace(s.shape));
  cone_lists_cuda(graph.view(), {index.data(), ptr.data(), int64_t(index.size()), s.shape.batch},
                  layers, {nullptr, workspace.data(), error.data()});
  EXPECT_EQ(error.host()[0], 0);
  for (size_t i = 0; i < layers.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "batch " << c.batch << ", layer " << i + 1);
    ConeShape both = layers[i].shape;
    both.types = 1;
    both.capacity = layers[i].either_capacity;
    expect_same_lists(layers[i].shape, lists[i], wanted[i]);
    expect_same_lists(both, either[i], wanted_either[i]);
  }
}

TEST(ConeCuda, ListsOfEveryLayerAreThoseOfTheCpu) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const GraphShape sparse = {.nodes = 900, .edges = {1500, 700, 0, 60}, .hub = 40};
  for (const ConeCase& c :
       {ConeCase{}, ConeCase{.graph = sparse, .batch = 1, .removed = 1},
        ConeCase{.graph = sparse, .batch = 32, .removed = 2},
        ConeCase{.graph = sparse, .batch = 33, .removed = 3},
        ConeCase{.graph = sparse, .batch = 100, .removed = 2},
        ConeCase{.graph = sparse, .batch = 1057, .removed = 1},
        ConeCase{.graph = {.nodes = 12, .edges = {40}}, .batch = 4, .removed = 12},
        ConeCase{.graph = {.nodes = 9, .edges = {0, 0}}, .batch = 3},
        ConeCase{.graph = {.nodes = 3000, .edges = {9000, 20000}, .hub = 2500}, .batch = 28}})
    expect_same_layers(seed, c);
}

// A row of the sums of all samples that a cone's row is taken from, and the way back.
TEST(ConeCuda, TakesRowsOutOfThoseOfAllSamples) {
  LACUNA_NEEDS_GPU();
  const ConeSetting<float> s(test_seed(), {.batch = 5, .width = 12, .layer = 2});
  HostLists host(s.shape);
  cone_lists(s.marks, s.shape, host.view(), 1);
  const DeviceArray<int32_t> place(host.place), row(host.row), used(host.used);
  const ConeLists there = {place.data(), row.data(), used.data()};
  const int64_t all_rows = s.shape.nodes * (s.shape.batch + 1);
  const auto all = random_numbers<float>(3, 1, s.shape.types * all_rows * s.width);
  const DeviceArray<float> from(all), taken(s.grad_u.size()), grad(s.grad_u), grad_all(all.size());
  cone_take_cuda(s.shape, there, s.width, from.data(), taken.data(), {});
  cone_take_backward_cuda(s.shape, there, s.width, grad.data(), grad_all.data(), {});
  const auto got = taken.host(), back = grad_all.host();
  for (int64_t t = 0; t < s.shape.types; ++t)
    for (int64_t n = 0; n < s.shape.nodes; ++n)
      for (int64_t b = 0; b <= s.shape.batch; ++b) {
        const int64_t at = s.row_of(host.place, t, n, b);
        const bool own = b == s.shape.batch || at >= s.shape.nodes;
        for (int64_t h = 0; h < s.width; ++h) {
          const auto in_all =
              size_t(((t * s.shape.nodes + n) * (s.shape.batch + 1) + b) * s.width + h);
          const auto in_rows = size_t((t * s.shape.rows() + at) * s.width + h);
          ASSERT_EQ(back[in_all], own ? s.grad_u[in_rows] : 0.0f) << t << " " << n << " " << b;
          if (!own) continue;
          ASSERT_EQ(got[in_rows], all[in_all]) << t << " " << n << " " << b;
        }
      }
}

TEST(ConeCuda, ReportsAListThatIsTooLong) {
  LACUNA_NEEDS_GPU();
  ConeSetting<float> s(1, {});
  const DeviceGraph graph(s.graph, 0);
  s.shape.capacity = 1;
  const GpuLists lists(s.shape);
  const DeviceArray<int32_t> index(s.removed.index), ptr(s.removed.ptr),
      error(std::vector<int32_t>{0});
  const DeviceArray<std::byte> workspace(cone_lists_workspace(s.shape));
  const ConeLayer layer = {s.shape, lists.view()};
  cone_lists_cuda(graph.view(), {index.data(), ptr.data(), int64_t(index.size()), s.shape.batch},
                  {&layer, 1}, {nullptr, workspace.data(), error.data()});
  EXPECT_EQ(error.host()[0], kConeTooLong);
}

}  // namespace
}  // namespace lacuna
