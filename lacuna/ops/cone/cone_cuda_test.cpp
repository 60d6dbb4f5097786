// cone_cuda.h against cone.h, which has its own test against plain loops.
#include "lacuna/ops/cone/cone_cuda.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/testing.h"
#include "lacuna/ops/cone/cone_testing.h"
#include "lacuna/ops/cuda/cuda_test_support.h"

namespace lacuna {
namespace {

using namespace testing;

// Everything that cone.h computes for a setting.
template <class Real>
struct Results {
  std::vector<int32_t> place, row, used;
  std::vector<Real> u, grad_x, out, grad_y;
  std::vector<Parameter<Real>> grad_eps;
};

template <class Real>
Results<Real> on_cpu(const ConeSetting<Real>& s) {
  Results<Real> r;
  r.place.resize(size_t(s.shape.types * s.shape.nodes * s.shape.batch));
  r.row.resize(size_t(s.shape.types * s.shape.capacity));
  r.used.resize(size_t(s.shape.types));
  r.u.resize(s.grad_u.size());
  r.grad_x.resize(s.x.size());
  r.grad_eps.resize(s.eps.size());
  r.out.resize(s.grad_out.size());
  r.grad_y.resize(s.y.size());
  const ConeLists lists = {r.place.data(), r.row.data(), r.used.data()};
  const GraphPlan plan = s.graph.plan();
  cone_lists(mark_cone(plan, s.removed.view(), 1), s.shape, lists, 1);
  const ConeCall<Real> call = s.call(lists);
  cone_aggregate(plan, call, r.u.data());
  cone_aggregate_backward(plan, call, s.grad_u.data(), r.grad_x.data(), r.grad_eps.data());
  const Real* nowhere = nullptr;  // the wild type's rows stand in front
  cone_sum(s.shape, lists, s.width, s.share, s.y.data(), nowhere, r.out.data(), 1);
  cone_sum_backward(s.shape, lists, s.width, s.share, s.grad_out.data(), r.grad_y.data(), 1);
  return r;
}

template <class Real>
Results<Real> on_gpu(const ConeSetting<Real>& s) {
  const DeviceGraph graph(s.graph, 0);
  const DeviceArray<int32_t> index(s.removed.index), ptr(s.removed.ptr);
  const CudaRemoved removed = {index.data(), ptr.data(), int64_t(index.size()), s.shape.batch};
  const DeviceArray<int32_t> place(size_t(s.shape.types * s.shape.nodes * s.shape.batch)),
      row(size_t(s.shape.types * s.shape.capacity)), used(size_t(s.shape.types)),
      error(std::vector<int32_t>{0});
  const DeviceArray<Real> x(s.x), y(s.y), grad_u(s.grad_u), grad_out(s.grad_out),
      u(s.grad_u.size()), grad_x(s.x.size()), out(s.grad_out.size()), grad_y(s.y.size());
  const DeviceArray<Parameter<Real>> eps(s.eps), grad_eps(s.eps.size());
  const DeviceArray<std::byte> workspace(cone_cuda_workspace(s.shape, s.width));
  const CudaLaunch launch = {nullptr, workspace.data(), error.data()};
  const ConeLists lists = {place.data(), row.data(), used.data()};
  cone_lists_cuda(graph.view(), removed, s.shape, lists, launch);
  cone_aggregate_cuda(graph.view(), s.shape, lists, s.width, x.data(), eps.data(), u.data(),
                      launch);
  cone_aggregate_backward_cuda(graph.view(), s.shape, lists, s.width, x.data(), eps.data(),
                               grad_u.data(), grad_x.data(), grad_eps.data(), launch);
  cone_sum_cuda(s.shape, lists, s.width, s.share, y.data(), out.data(), launch);
  cone_sum_backward_cuda(s.shape, lists, s.width, s.share, grad_out.data(), grad_y.data(), launch);
  EXPECT_EQ(error.host()[0], 0);
  return {place.host(),  row.host(), used.host(),   u.host(),
          grad_x.host(), out.host(), grad_y.host(), grad_eps.host()};
}

template <class Real>
void expect_near(const char* what, const std::vector<Real>& got, const std::vector<Real>& wanted) {
  // Sums in another order; what is rounded to bf16 may end one step away.
  const double step = sizeof(Real) == 2 ? 1.0 / 128 : sizeof(Real) == 4 ? 1e-5 : 1e-11;
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
    for (size_t t = 0; t < s.eps.size(); ++t)
      EXPECT_NEAR(double(got.grad_eps[t]), double(wanted.grad_eps[t]),
                  1e-3 * (1 + std::abs(double(wanted.grad_eps[t]))));
    const auto bytes = [](const auto& v) {
      return std::vector<char>(reinterpret_cast<const char*>(v.data()),
                               reinterpret_cast<const char*>(v.data() + v.size()));
    };
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

TEST(ConeCuda, ReportsAListThatIsTooLong) {
  LACUNA_NEEDS_GPU();
  ConeSetting<float> s(1, {});
  const DeviceGraph graph(s.graph, 0);
  s.shape.capacity = 1;
  const DeviceArray<int32_t> index(s.removed.index), ptr(s.removed.ptr),
      place(size_t(s.shape.types * s.shape.nodes * s.shape.batch)), row(size_t(s.shape.types)),
      used(size_t(s.shape.types)), error(std::vector<int32_t>{0});
  const DeviceArray<std::byte> workspace(cone_cuda_workspace(s.shape, 8));
  cone_lists_cuda(graph.view(), {index.data(), ptr.data(), int64_t(index.size()), s.shape.batch},
                  s.shape, {place.data(), row.data(), used.data()},
                  {nullptr, workspace.data(), error.data()});
  EXPECT_EQ(error.host()[0], kConeTooLong);
}

}  // namespace
}  // namespace lacuna
