// The rows that differ against plain loops over every sample, in double.
#include "lacuna/ops/cone/cone.h"

#include <gtest/gtest.h>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/ops/closeness.h"
#include "lacuna/ops/cone/cone_testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;
using Setting = ConeSetting<double>;

struct Lists {
  std::vector<int32_t> place, row, used;

  explicit Lists(const Setting& s) : Lists(s.marks, s.shape) {}
  Lists(const ConeMarks& marks, const ConeShape& shape)
      : place(size_t(shape.types * shape.nodes * shape.batch), 77),
        row(size_t(shape.types * shape.capacity), 77),
        used(size_t(shape.types), 77) {
    cone_lists(marks, shape, view(), 2);
  }
  ConeLists view() { return {place.data(), row.data(), used.data()}; }
};

std::vector<ConeCase> cases() {
  return {{},
          {.batch = 1, .width = 3, .removed = 1},
          {.batch = 33, .removed = 2},
          {.batch = 70, .width = 40, .removed = 1},  // more than a word of bits, and two blocks
          {.graph = {.nodes = 12, .edges = {40}}, .batch = 4, .removed = 12},
          {.graph = {.nodes = 9, .edges = {0, 0}}, .batch = 3},
          {.layer = 2},
          {.batch = 1, .width = 3, .removed = 1, .layer = 3},
          {.graph = {.nodes = 150, .edges = {60, 200, 0}}, .batch = 6, .width = 40, .layer = 2},
          {.graph = {.nodes = 150, .edges = {60, 200, 0}}, .batch = 6, .width = 40, .layer = 3},
          {.graph = {.nodes = 12, .edges = {40}}, .batch = 4, .removed = 12, .layer = 2}};
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
          const int32_t wanted = s.is_removed(b, n)            ? -1
                                 : s.differs(c.layer, t, n, b) ? ++count
                                                               : 0;
          ASSERT_EQ(place, wanted) << t << " " << n << " " << b;
          if (place > 0) {
            EXPECT_EQ(lists.row[size_t(t * s.shape.capacity + place - 1)], n * s.shape.batch + b);
          }
        }
      EXPECT_EQ(lists.used[size_t(t)], s.shape.nodes + count);
      if (c.layer == 1) {
        EXPECT_LE(count, cone_capacity(s.graph.plan(), s.shape.batch, c.removed));
      }
    }
  }
}

// Random masks of the samples, with the wild type behind them, whose edges are all on.
struct SomeMasks {
  std::vector<uint8_t> records;   // [B + 1, stride]
  std::vector<uint64_t> offsets;  // [T]
  uint64_t stride = 0;

  SomeMasks(uint64_t seed, const Setting& s) {
    for (const EdgeList& type : s.graph.lists()) {
      offsets.push_back(stride);
      stride += type.sources.size();
    }
    stride += 5;
    Random random(seed, 9);
    records.assign(size_t(s.shape.batch + 1) * stride, 1);
    for (size_t i = 0; i < size_t(s.shape.batch) * stride; ++i) records[i] = random.below(3) > 0;
  }
  MaskView view() const { return {records, stride, offsets}; }
};

// A neighbour that a row sums, and what it counts.
struct Term {
  int64_t source;
  double value;
};

// Calls visit(row, n, b, terms): a row of a type in use, and what it sums.
template <class Visit>
void for_rows(const Setting& s, const Lists& lists, const SomeMasks* masks, const double* values,
              int64_t t, const Visit& visit) {
  const EdgeList type = s.graph.lists()[size_t(t)];
  if (values) values += s.graph.plan().first_edge(uint32_t(t));
  for (int64_t row = 0; row < lists.used[size_t(t)]; ++row) {
    const bool wild = row < s.shape.nodes;
    const int64_t listed =
        wild ? 0 : int64_t(lists.row[size_t(t * s.shape.capacity + row - s.shape.nodes)]);
    const int64_t n = wild ? row : listed / s.shape.batch;
    const int64_t b = wild ? s.shape.batch : listed % s.shape.batch;
    std::vector<Term> terms;
    for (size_t e = 0; e < type.sources.size(); ++e) {
      const bool on =
          !masks || masks->records[size_t(b) * masks->stride + masks->offsets[size_t(t)] + e] != 0;
      if (type.targets[e] == n && on && (wild || !s.is_removed(b, type.sources[e])))
        terms.push_back({int64_t(type.sources[e]), values ? values[e] : 1});
    }
    visit(row, n, b, terms);
  }
}

// With the removed genes, and behind the first layer with masks, too; without and with values.
template <class Test>
void for_settings(const Test& test) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    Lists lists(s);
    SCOPED_TRACE(::testing::Message() << "layer " << c.layer << ", batch " << c.batch);
    const SomeMasks masks(seed, s);
    for (const bool valued : {false, true}) {
      ConeCall<double> call = s.call(lists.view());
      if (valued) call.values = s.values.data();
      test(s, lists, call, nullptr);
      if (s.shared) continue;
      call.masks = masks.view();
      test(s, lists, call, &masks);
    }
  }
}

TEST(Cone, SumsAsEverySampleWould) {
  for_settings([](const Setting& s, const Lists& lists, const ConeCall<double>& call,
                  const SomeMasks* masks) {
    std::vector<double> u(s.grad_u.size(), NAN);
    cone_aggregate(s.graph.plan(), call, u.data());
    for (int64_t t = 0; t < s.shape.types; ++t)
      for_rows(s, lists, masks, call.values, t,
               [&](int64_t row, int64_t n, int64_t b, const auto& terms) {
                 for (int64_t h = 0; h < s.width; ++h) {
                   double sum = (1 + s.eps[size_t(t)]) * s.x[size_t(s.x_at(n, b) + h)];
                   for (const auto& [source, value] : terms)
                     sum += value * s.x[size_t(s.x_at(source, b) + h)];
                   const double got = u[size_t((t * s.shape.rows() + row) * s.width + h)];
                   ASSERT_NEAR(got, sum, 1e-11) << t << " " << n << " " << b;
                 }
               });

    // The listed rows alone: the same bits.
    ConeCall<double> alone = call;
    alone.shape.wild = false;
    Lists of_alone(s.marks, alone.shape);
    alone.lists = of_alone.view();
    std::vector<double> listed(size_t(s.shape.types * alone.shape.rows() * s.width), NAN);
    cone_aggregate(s.graph.plan(), alone, listed.data());
    for (int64_t t = 0; t < s.shape.types; ++t) {
      const auto from = listed.begin() + t * alone.shape.rows() * s.width;
      const auto count = of_alone.used[size_t(t)] * s.width;
      EXPECT_EQ(of_alone.used[size_t(t)], lists.used[size_t(t)] - s.shape.nodes);
      EXPECT_TRUE(std::equal(from, from + count,
                             u.begin() + (t * s.shape.rows() + s.shape.nodes) * s.width));
    }
  });
}

TEST(Cone, PassesGradientsBackToXAndEps) {
  for_settings([](const Setting& s, const Lists& lists, const ConeCall<double>& call,
                  const SomeMasks* masks) {
    std::vector<double> grad_x(s.x.size(), NAN), grad_eps(s.eps.size(), NAN);
    cone_aggregate_backward(s.graph.plan(), call, s.grad_u.data(), grad_x.data(), grad_eps.data());
    std::vector<double> wanted_x(s.x.size(), 0), wanted_eps(s.eps.size(), 0);
    for (int64_t t = 0; t < s.shape.types; ++t)
      for_rows(s, lists, masks, call.values, t,
               [&](int64_t row, int64_t n, int64_t b, const auto& terms) {
                 for (int64_t h = 0; h < s.width; ++h) {
                   const double grad = s.grad_u[size_t((t * s.shape.rows() + row) * s.width + h)];
                   wanted_x[size_t(s.x_at(n, b) + h)] += (1 + s.eps[size_t(t)]) * grad;
                   wanted_eps[size_t(t)] += grad * s.x[size_t(s.x_at(n, b) + h)];
                   for (const auto& [source, value] : terms)
                     wanted_x[size_t(s.x_at(source, b) + h)] += value * grad;
                 }
               });
    for (size_t i = 0; i < grad_x.size(); ++i) ASSERT_NEAR(grad_x[i], wanted_x[i], 1e-10) << i;
    for (size_t i = 0; i < grad_eps.size(); ++i) ASSERT_NEAR(grad_eps[i], wanted_eps[i], 1e-9) << i;
  });
}

TEST(Cone, AddsTheTypesUpAndGivesEachRowItsGradient) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    Lists lists(s);
    std::vector<double> out(s.grad_out.size(), NAN), grad_y(s.y.size(), 0);
    const double* nowhere = nullptr;
    cone_sum(s.shape, lists.view(), s.width, s.share, s.y.data(), nowhere, out.data(), 2);
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

// Of y [T, N + C, H]: the listed rows, and those of the wild type apart.
std::pair<std::vector<double>, std::vector<double>> apart(const Setting& s) {
  std::vector<double> listed, wild;
  for (int64_t t = 0; t < s.shape.types; ++t) {
    const auto rows = s.y.begin() + t * s.shape.rows() * s.width;
    wild.insert(wild.end(), rows, rows + s.shape.nodes * s.width);
    listed.insert(listed.end(), rows + s.shape.nodes * s.width, rows + s.shape.rows() * s.width);
  }
  return {listed, wild};
}

TEST(Cone, GathersWhatDiffersByAnyTypeAndGivesEachRowItsGradient) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    Lists lists(s);
    const ConeMarks marks = s.marks.either();
    const int64_t count = marks.counts()[0], N = s.shape.nodes, rows = N + count;
    const ConeShape shape = {N, 1, s.shape.batch, count};
    Lists either(marks, shape);
    std::vector<double> out(size_t(s.shape.types * rows * s.width), NAN), grad_y(s.y.size(), 0);
    const double* nowhere = nullptr;
    cone_gather(s.shape, lists.view(), either.view(), count, s.width, s.y.data(), nowhere,
                out.data(), 2);
    const auto grad_out = random_numbers<double>(seed, 7, int64_t(out.size()));
    cone_gather_backward(s.shape, lists.view(), either.view(), count, s.width, grad_out.data(),
                         grad_y.data(), 2);
    std::vector<double> wanted_grad(grad_y.size(), 0);
    for (int64_t t = 0; t < s.shape.types; ++t)
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = row < N ? 0 : int64_t(either.row[size_t(row - N)]);
        const int64_t n = row < N ? row : at / s.shape.batch;
        const int64_t b = row < N ? s.shape.batch : at % s.shape.batch;
        if (row >= N) {
          EXPECT_TRUE(s.any_differs(c.layer, n, b));
        }
        for (int64_t h = 0; h < s.width; ++h) {
          const auto to = size_t((t * rows + row) * s.width + h);
          const auto from =
              size_t((t * s.shape.rows() + s.row_of(lists.place, t, n, b)) * s.width + h);
          ASSERT_EQ(out[to], s.y[from]);
          wanted_grad[from] += grad_out[to];
        }
      }
    for (size_t i = 0; i < grad_y.size(); ++i) ASSERT_NEAR(grad_y[i], wanted_grad[i], 1e-12) << i;
  }
}

TEST(Cone, TheWildTypesRowsMayStandApart) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const ConeCase& c : cases()) {
    const Setting s(seed, c);
    ConeShape alone = s.shape, one = {s.shape.nodes, 1, s.shape.batch, 0};
    alone.wild = false;
    const ConeMarks marks = s.marks.either();
    one.capacity = marks.counts()[0];
    Lists lists(s), of_alone(s.marks, alone), either(marks, one);
    const auto [listed, wild] = apart(s);
    std::vector<double> out(s.grad_out.size(), NAN), got(s.grad_out.size(), NAN);
    const double* nowhere = nullptr;
    cone_sum(s.shape, lists.view(), s.width, s.share, s.y.data(), nowhere, out.data(), 2);
    cone_sum(alone, of_alone.view(), s.width, s.share, listed.data(), wild.data(), got.data(), 2);
    EXPECT_EQ(out, got);
    const int64_t T = s.shape.types, D = one.capacity, N = s.shape.nodes;
    std::vector<double> all(size_t(T * (N + D) * s.width)), few(size_t(T * D * s.width));
    cone_gather(s.shape, lists.view(), either.view(), D, s.width, s.y.data(), nowhere, all.data(),
                2);
    cone_gather(alone, of_alone.view(), either.view(), D, s.width, listed.data(), wild.data(),
                few.data(), 2);
    for (int64_t t = 0; t < T; ++t)
      EXPECT_TRUE(std::equal(few.begin() + t * D * s.width, few.begin() + (t + 1) * D * s.width,
                             all.begin() + (t * (N + D) + N) * s.width));
  }
}

TEST(Cone, SaysWhenThereIsNoRoomOrNoSuchGene) {
  Setting s(1, {});
  s.shape.capacity = 1;
  EXPECT_ERROR(Lists{s}, "for which there is room");
  s.removed.index[0] = 80;
  EXPECT_ERROR(mark_cone(s.graph.plan(), s.removed.view(), 1), "80");
}

}  // namespace
}  // namespace lacuna
