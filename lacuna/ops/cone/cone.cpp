#include "lacuna/ops/cone/cone.h"

#include <algorithm>

#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

constexpr int64_t kNodesATask = 16;

// Calls body(n) for every node, some at a time.
template <class Body>
void for_nodes(int64_t nodes, int threads, const Body& body) {
  parallel_for(uint64_t((nodes + kNodesATask - 1) / kNodesATask), threads, [&](uint64_t task) {
    const int64_t begin = int64_t(task) * kNodesATask;
    for (int64_t n = begin; n < std::min(begin + kNodesATask, nodes); ++n) body(n);
  });
}

// Where the rows of a type stand.
template <class Real>
struct ConeRows {
  const ConeShape& shape;
  const ConeLists& lists;
  int64_t width;
  Real* rows;                 // [T, rows, H]
  Real* wild_rows = nullptr;  // [T, N, H] where they stand apart

  int32_t place(int64_t t, int64_t n, int64_t b) const {
    return lists.place[(t * shape.nodes + n) * shape.batch + b];
  }
  Real* wild(int64_t t, int64_t n) const {
    return shape.wild ? rows + (t * shape.rows() + n) * width
                      : wild_rows + (t * shape.nodes + n) * width;
  }
  Real* listed(int64_t t, int64_t e) const {
    return rows + (t * shape.rows() + shape.first() + e) * width;
  }
  // The row that sample b reads for a gene that it keeps.
  Real* of(int64_t t, int64_t n, int64_t b) const {
    const int32_t at = b == shape.batch ? 0 : place(t, n, b);
    return at > 0 ? listed(t, at - 1) : wild(t, n);
  }
  bool any_differs(int64_t n, int64_t b) const {
    for (int64_t t = 0; t < shape.types; ++t)
      if (place(t, n, b) > 0) return true;
    return false;
  }
};

// A row that is being added up.
template <class Real>
class RowSum {
  using Acc = Parameter<Real>;

 public:
  explicit RowSum(int64_t width) : sum_(size_t(width)) {}

  void clear() { std::fill(sum_.begin(), sum_.end(), Acc(0)); }
  void add(const Real* row) {
    Acc* sum = sum_.data();
    for (size_t h = 0; h < sum_.size(); ++h) sum[h] += Acc(row[h]);
  }
  void add(const RowSum& other) {
    for (size_t h = 0; h < sum_.size(); ++h) sum_[h] += other.sum_[h];
  }
  void write(Acc scale, Real* out) const {
    const Acc* sum = sum_.data();
    for (size_t h = 0; h < sum_.size(); ++h) out[h] = Real(scale * sum[h]);
  }

 private:
  std::vector<Acc> sum_;  // [H]
};

}  // namespace

template <class Real>
void cone_sum(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
              const Real* y, const Real* wild_y, Real* out, int threads) {
  const ConeRows<const Real> from = {shape, lists, width, y, wild_y};
  for_nodes(shape.nodes, threads, [&](int64_t n) {
    RowSum<Real> sum(width);
    const auto write = [&](int64_t b, Real* row) {
      sum.clear();
      for (int64_t t = 0; t < shape.types; ++t) sum.add(from.of(t, n, b));
      sum.write(share, row);
    };
    Real* rows = out + n * (shape.batch + 1) * width;
    const Real* wild = rows + shape.batch * width;
    write(shape.batch, rows + shape.batch * width);
    for (int64_t b = 0; b < shape.batch; ++b) {
      Real* row = rows + b * width;
      if (from.place(0, n, b) < 0)
        std::fill_n(row, width, Real(0.0f));
      else if (from.any_differs(n, b))
        write(b, row);
      else
        std::copy_n(wild, width, row);
    }
  });
}

template <class Real>
void cone_sum_backward(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
                       const Real* grad_out, Real* grad_y, int threads) {
  const ConeRows<Real> to = {shape, lists, width, grad_y};
  for_nodes(shape.nodes, threads, [&](int64_t n) {
    const Real* rows = grad_out + n * (shape.batch + 1) * width;
    RowSum<Real> common(width), sum(width), own(width);  // common: where no type differs
    common.add(rows + shape.batch * width);
    std::vector<int64_t> differing;
    for (int64_t b = 0; b < shape.batch; ++b) {
      if (to.place(0, n, b) < 0) continue;
      if (to.any_differs(n, b))
        differing.push_back(b);
      else
        common.add(rows + b * width);
    }
    for (int64_t t = 0; t < shape.types; ++t) {
      sum = common;
      for (const int64_t b : differing) {
        const int32_t place = to.place(t, n, b);
        if (place == 0) sum.add(rows + b * width);
        if (place <= 0) continue;
        own.clear();
        own.add(rows + b * width);
        own.write(share, to.listed(t, place - 1));
      }
      sum.write(share, to.wild(t, n));
    }
  });
}

template <class Real>
void cone_gather(const ConeShape& shape, const ConeLists& lists, const ConeLists& either,
                 int64_t either_rows, int64_t width, const Real* y, const Real* wild_y, Real* out,
                 int threads) {
  const ConeRows<const Real> from = {shape, lists, width, y, wild_y};
  const int64_t rows = shape.first() + either_rows;
  for_nodes(shape.nodes, threads, [&](int64_t n) {
    for (int64_t t = 0; t < shape.types; ++t) {
      Real* to = out + t * rows * width;
      if (shape.wild) std::copy_n(from.wild(t, n), width, to + n * width);
      for (int64_t b = 0; b < shape.batch; ++b)
        if (const int32_t place = either.place[n * shape.batch + b]; place > 0)
          std::copy_n(from.of(t, n, b), width, to + (shape.first() + place - 1) * width);
    }
  });
}

template <class Real>
void cone_gather_backward(const ConeShape& shape, const ConeLists& lists, const ConeLists& either,
                          int64_t either_rows, int64_t width, const Real* grad_out, Real* grad_y,
                          int threads) {
  const ConeRows<Real> to = {shape, lists, width, grad_y};
  const int64_t rows = shape.first() + either_rows;
  for_nodes(shape.nodes, threads, [&](int64_t n) {
    RowSum<Real> sum(width);
    for (int64_t t = 0; t < shape.types; ++t) {
      const Real* from = grad_out + t * rows * width;
      sum.clear();
      sum.add(from + n * width);
      for (int64_t b = 0; b < shape.batch; ++b) {
        const int32_t at = either.place[n * shape.batch + b];
        if (at <= 0) continue;
        const Real* row = from + (shape.first() + at - 1) * width;
        if (const int32_t place = to.place(t, n, b); place > 0)
          std::copy_n(row, width, to.listed(t, place - 1));
        else
          sum.add(row);
      }
      sum.write(1, to.wild(t, n));
    }
  });
}

#define LACUNA_INSTANTIATE(Real)                                                                 \
  template void cone_sum<Real>(const ConeShape&, const ConeLists&, int64_t, double, const Real*, \
                               const Real*, Real*, int);                                         \
  template void cone_sum_backward<Real>(const ConeShape&, const ConeLists&, int64_t, double,     \
                                        const Real*, Real*, int);                                \
  template void cone_gather<Real>(const ConeShape&, const ConeLists&, const ConeLists&, int64_t, \
                                  int64_t, const Real*, const Real*, Real*, int);                \
  template void cone_gather_backward<Real>(const ConeShape&, const ConeLists&, const ConeLists&, \
                                           int64_t, int64_t, const Real*, Real*, int);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
