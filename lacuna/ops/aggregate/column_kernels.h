// The inner loops of the CPU operators, for the widest vectors that the processor has (Highway:
// AVX-512, AVX2, or portable code).
//
// A matrix [rows, B * H] is worked on in blocks of a few columns, which are first packed tight:
// [rows, C] with C one or two cache lines of accumulators, so that a whole graph's worth of rows
// stays in the second-level cache while the edges are walked. All functions work on rows begin to
// end; rows do not depend on each other, so any split over threads gives the same bits. Input is
// checked by the callers.
#pragma once

#include <cstdint>

#include "lacuna/ops/aggregate/aggregate.h"
#include "lacuna/ops/aggregate/kept.h"

namespace lacuna {

inline constexpr int64_t kCacheLine = 64;
template <class Acc>
inline constexpr int64_t kLineColumns = kCacheLine / int64_t(sizeof(Acc));

// Which columns of [rows, batch * width] a block holds.
struct Columns {
  int64_t batch, width;   // B, H
  int64_t first, count;   // columns first .. first + count
  int64_t block_columns;  // C >= count, one or two cache lines; columns past count are zero

  int64_t pitch() const { return batch * width; }
  int64_t first_sample() const { return first / width; }
  int64_t last_sample() const { return (first + count - 1) / width; }
  // The columns of sample b inside the block.
  int64_t begin_of(int64_t b) const { return b * width < first ? 0 : b * width - first; }
  int64_t end_of(int64_t b) const {
    return (b + 1) * width > first + count ? count : (b + 1) * width - first;
  }
};

// Some of the rows, and where each one's result stands; null: all rows, each in its own place.
struct RowList {
  const int32_t* row = nullptr;
  const int32_t* place = nullptr;

  int64_t row_of(int64_t i) const { return row ? row[i] : i; }
  int64_t place_of(int64_t i) const { return place ? place[i] : i; }
};

// block[r, c] = source[r, first + c] * scale[r, sample of c]; a scale of 0 gives 0 whatever the
// source holds.
template <class Real>
struct Pack {
  Columns columns;
  const Real* source;      // [rows, B * H]
  const double* scale;     // [rows, B] or null = 1
  Parameter<Real>* block;  // [rows, C]
};
template <class Real>
void pack(const Pack<Real>& args, int64_t begin, int64_t end);

// For every row: reduce the block rows of its neighbours in order, scale, add the self term, and
// store or add up.
template <class Real>
struct Walk {
  using Acc = Parameter<Real>;
  Columns columns;
  CsrView csr;
  uint32_t index_bytes;
  bool maximum = false;         // the largest instead of the sum; -infinity where there is nothing
  const Acc* values = nullptr;  // [E] by place in the CSR, or null = 1
  const uint8_t* mask = nullptr;  // [E] by edge, 0 = off, or null = all on
  const Acc*
      block;  // [sources + 1, C]; the last row is zero, and is what an edge that is off reads
  uint32_t zero_row;  // sources
  const double* scale =
      nullptr;                // [rows, B] or null = 1; a scale of 0 gives 0 whatever was reduced
  const Acc* self = nullptr;  // [rows, C] or null
  Acc self_factor = 0;
  Acc* partial = nullptr;  // [rows, C]: where results go (or are added) when types are summed
  bool add = false;
  Real* out = nullptr;  // otherwise: row r, or place[r] of a list, at r * out_pitch + out_first
  int64_t out_pitch = 0, out_first = 0;
  RowList list = {};
};
// begin and end: of the list where there is one.
template <class Real>
void walk(const Walk<Real>& args, int64_t begin, int64_t end);

// The transpose of walk() for sums: adds the gradient of every row to its neighbours and, times
// self_factor, to the row itself. Rows scatter: one thread a block.
template <class Real>
struct Scatter {
  using Acc = Parameter<Real>;
  Columns columns;
  CsrView csr;
  uint32_t index_bytes;
  const Acc* values = nullptr;    // [E] by place in the CSR, or null = 1
  const uint8_t* mask = nullptr;  // [E] by edge, 0 = off, or null = all on
  Acc self_factor = 0;
  const Real* grad;  // row r, or place[r] of a list, at r * grad_pitch + grad_first
  int64_t grad_pitch, grad_first;
  RowList list = {};
  Acc* partial;  // [sources, C], added to
};
template <class Real>
void scatter(const Scatter<Real>& args, int64_t begin, int64_t end);

// out[r, first + c] = block[r, c].
template <class Real>
void unpack(const Columns& columns, const Parameter<Real>* block, Real* out, int64_t begin,
            int64_t end);

// For every row of one type: finds the neighbour that is the maximum (as walk() with `maximum`
// does; the first one where several are) and adds the row's gradient to it. Rows scatter: one
// thread a block.
template <class Real>
struct ScatterMax {
  using Acc = Parameter<Real>;
  Columns columns;
  CsrView csr;
  uint32_t index_bytes;
  const Acc* block;             // [sources, C], -infinity where removed
  const double* has_neighbour;  // [rows, B]: 0 = no kept in-neighbour, or removed
  const RemovedSets* removed;
  const Real* grad_out;  // [rows, B * H]
  Acc* partial;          // [sources, C], added to
};
template <class Real>
void scatter_max(const ScatterMax<Real>& args, int64_t rows);

// grad[edge] += block_a[neighbour] . block_b[row] over the columns of the block, for every edge of
// the rows.
template <class Acc>
struct EdgeDot {
  Columns columns;
  CsrView csr;
  uint32_t index_bytes;
  const Acc* neighbour_block;  // [sources, C]
  const Acc* row_block;        // [rows, C]
  const uint8_t* mask;         // [E] by edge, 0 = off (adds nothing), or null
  Acc* grad;                   // [E] by place in the CSR
};
template <class Acc>
void edge_dot(const EdgeDot<Acc>& args, int64_t begin, int64_t end);

// Writes `value` to count bytes, past the caches where whole lines are aligned.
void fill_bytes(uint8_t value, uint64_t count, uint8_t* out);

// out[i] = row for i below copies, past the caches where the lines allow it.
template <class Real>
void repeat_row(const Real* row, int64_t width, int64_t copies, Real* out);  // out [copies, width]

// The dot product of two rows, in a fixed order.
template <class Real>
double dot(const Real* a, const Real* b, int64_t count);

}  // namespace lacuna
