// The rows that differ against plain loops over every sample, in double.
#include "lacuna/ops/cone/cone.h"

#include <gtest/gtest.h>

#include "lacuna/core/error.h"
#include "lacuna/core/testing.h"
#include "lacuna/ops/closeness.h"
#include "lacuna/ops/cone/cone_testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;
using Setting = ConeSetting<double>;

struct Lists {
  std::vector<int32_t> place, row, used;

  explicit Lists(const Setting& s)
      : place(size_t(s.shape.types * s.shape.nodes * s.shape.batch), 77),
        row(size_t(s.shape.types * s.shape.capacity), 77),
        used(size_t(s.shape.types), 77) {
    cone_lists(s.graph.plan(), s.removed.view(), s.shape, view(), 2);
  }
  ConeLists view() { return {place.data(), row.data(), used.data()}; }
};

std::vector<ConeCase> cases() {
  return {{},
          {.batch = 1, .width = 3, .removed = 1},
          {.batch = 33, .removed = 2},
          {.graph = {.nodes = 12, .edges = {40}}, .batch = 4, .removed = 12},
          {.graph = {.nodes = 9, .edges = {0, 0}}, .batch = 3}};
}

TEST(Cone, ListsExactlyWhatDiffers) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    const Lists lists(s);
    for (int64_t t = 0; t < s.shape.types; ++t) {
      int32_t count = 0;
      for (int64_t n = 0; n < s.shape.nodes; ++n)
        for (int64_t b = 0; b < s.shape.batch; ++b) {
          const int32_t place = lists.place[size_t((t * s.shape.nodes + n) * s.shape.batch + b)];
          const int32_t wanted = s.is_removed(b, n) ? -1 : s.differs(t, n, b) ? ++count : 0;
          ASSERT_EQ(place, wanted) << t << " " << n << " " << b;
          if (place > 0) {
            EXPECT_EQ(lists.row[size_t(t * s.shape.capacity + place - 1)], n * s.shape.batch + b);
          }
        }
      EXPECT_EQ(lists.used[size_t(t)], s.shape.nodes + count);
      EXPECT_LE(count, cone_capacity(s.graph.plan(), s.shape.batch, c.removed));
    }
  }
}

TEST(Cone, SumsAsEverySampleWould) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    Lists lists(s);
    std::vector<double> u(s.grad_u.size(), NAN);
    cone_aggregate(s.graph.plan(), s.shape, lists.view(), s.width, s.x.data(), s.eps.data(),
                   u.data(), 2);
    // Every (type, gene, sample or wild type) reads its row.
    for (int64_t t = 0; t < s.shape.types; ++t) {
      for (int64_t n = 0; n < s.shape.nodes; ++n)
        for (int64_t b = 0; b <= s.shape.batch; ++b) {
          const int64_t row = s.row_of(lists.place, t, n, b);
          if (row < 0) continue;
          const EdgeList type = s.graph.lists()[size_t(t)];
          for (int64_t h = 0; h < s.width; ++h) {
            double sum = (1 + s.eps[size_t(t)]) * s.x[size_t(n * s.width + h)];
            for (size_t e = 0; e < type.sources.size(); ++e)
              if (type.targets[e] == n && (b == s.shape.batch || !s.is_removed(b, type.sources[e])))
                sum += s.x[size_t(int64_t(type.sources[e]) * s.width + h)];
            const double got = u[size_t((t * s.shape.rows() + row) * s.width + h)];
            ASSERT_NEAR(got, sum, 1e-11) << t << " " << n << " " << b;
          }
        }
      for (int64_t i = lists.used[size_t(t)] * s.width; i < s.shape.rows() * s.width; ++i)
        EXPECT_EQ(u[size_t(t * s.shape.rows() * s.width + i)], 0);
    }
  }
}

TEST(Cone, PassesGradientsBackToXAndEps) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    Lists lists(s);
    std::vector<double> grad_x(s.x.size(), NAN), grad_eps(s.eps.size(), NAN);
    cone_aggregate_backward(s.graph.plan(), s.shape, lists.view(), s.width, s.x.data(),
                            s.eps.data(), s.grad_u.data(), grad_x.data(), grad_eps.data(), 2);
    std::vector<double> wanted_x(s.x.size(), 0), wanted_eps(s.eps.size(), 0);
    for (int64_t t = 0; t < s.shape.types; ++t)
      for (int64_t row = 0; row < lists.used[size_t(t)]; ++row) {
        const int64_t listed =
            row < s.shape.nodes
                ? -1
                : int64_t(lists.row[size_t(t * s.shape.capacity + row - s.shape.nodes)]);
        const int64_t n = listed < 0 ? row : listed / s.shape.batch;
        const EdgeList type = s.graph.lists()[size_t(t)];
        for (int64_t h = 0; h < s.width; ++h) {
          const double grad = s.grad_u[size_t((t * s.shape.rows() + row) * s.width + h)];
          wanted_x[size_t(n * s.width + h)] += (1 + s.eps[size_t(t)]) * grad;
          wanted_eps[size_t(t)] += grad * s.x[size_t(n * s.width + h)];
          for (size_t e = 0; e < type.sources.size(); ++e)
            if (type.targets[e] == n &&
                (listed < 0 || !s.is_removed(listed % s.shape.batch, type.sources[e])))
              wanted_x[size_t(int64_t(type.sources[e]) * s.width + h)] += grad;
        }
      }
    for (size_t i = 0; i < grad_x.size(); ++i) ASSERT_NEAR(grad_x[i], wanted_x[i], 1e-10) << i;
    for (size_t i = 0; i < grad_eps.size(); ++i) ASSERT_NEAR(grad_eps[i], wanted_eps[i], 1e-9) << i;
  }
}

TEST(Cone, AddsTheTypesUpAndGivesEachRowItsGradient) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    Lists lists(s);
    std::vector<double> out(s.grad_out.size(), NAN), grad_y(s.y.size(), NAN);
    cone_sum(s.shape, lists.view(), s.width, s.share, s.y.data(), out.data(), 2);
    cone_sum_backward(s.shape, lists.view(), s.width, s.share, s.grad_out.data(), grad_y.data(), 2);
    std::vector<double> wanted(out.size(), 0), wanted_grad(grad_y.size(), 0);
    for (int64_t t = 0; t < s.shape.types; ++t)
      for (int64_t n = 0; n < s.shape.nodes; ++n)
        for (int64_t b = 0; b <= s.shape.batch; ++b) {
          const int64_t row = s.row_of(lists.place, t, n, b);
          for (int64_t h = 0; h < s.width && row >= 0; ++h) {
            const auto at = size_t((n * (s.shape.batch + 1) + b) * s.width + h);
            const auto from = size_t((t * s.shape.rows() + row) * s.width + h);
            wanted[at] += double(s.share) * s.y[from];
            wanted_grad[from] += double(s.share) * s.grad_out[at];
          }
        }
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], wanted[i], 1e-12) << i;
    for (size_t i = 0; i < grad_y.size(); ++i) ASSERT_NEAR(grad_y[i], wanted_grad[i], 1e-12) << i;
  }
}

TEST(Cone, SaysWhenThereIsNoRoomOrNoSuchGene) {
  Setting s(1, {});
  s.shape.capacity = 1;
  EXPECT_ERROR(Lists{s}, "for which there is room");
  s.removed.index[0] = 80;
  EXPECT_ERROR(Lists{s}, "80");
}

}  // namespace
}  // namespace lacuna
