// The inner loops of dense work on rows on the CPU, for the widest vectors that the processor has
// (Highway: AVX-512, AVX2, or portable code).
//
// Rows stand in blocks that fit the caches, [rows, P]: their H columns and zeros up to a multiple
// of kRowPad, so that no loop has a rest. Every row is worked on by itself, and its sums have one
// order: a row's bits depend neither on where it stands nor on how many there are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lacuna/core/system/scratch.h"

namespace lacuna {

// Columns are padded to two cache lines.
template <class Acc>
inline constexpr int64_t kRowPad = 128 / int64_t(sizeof(Acc));
template <class Acc>
constexpr int64_t padded(int64_t columns) {
  return (columns + kRowPad<Acc> - 1) / kRowPad<Acc> * kRowPad<Acc>;
}
// A copy of [rows, columns] with padded rows.
template <class Acc>
Scratch<Acc> padded_matrix(const Acc* from, int64_t rows, int64_t columns) {
  const int64_t pitch = padded<Acc>(columns);
  Scratch<Acc> to(size_t(rows * pitch));
  std::fill_n(to.get(), rows * pitch, Acc(0));
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * columns, columns, to.get() + r * pitch);
  return to;
}

// Acc is float or double. All pitches are multiples of kRowPad, all arrays aligned to cache lines.
//
// out[r, :] = bias + sum over k < inner of in[r, k] * weight[k, :]; bias null: 0
template <class Acc>
struct RowProduct {
  int64_t rows, inner, in_pitch, pitch;  // pitch: of out and weight
  const Acc* in;                         // [rows, in_pitch]
  const Acc* weight;                     // [inner, pitch]
  const Acc* bias;                       // [pitch] or null
  Acc* out;                              // [rows, pitch]
};
template <class Acc>
void row_product(const RowProduct<Acc>& args);

// sum[k, :] += sum over rows of in[r, k] * grad[r, :], for k < inner; in the order of the rows
template <class Acc>
struct RowOuter {
  int64_t rows, inner, in_pitch, pitch;
  const Acc* in;    // [rows, in_pitch]
  const Acc* grad;  // [rows, pitch]
  Acc* sum;         // [inner, pitch]
};
template <class Acc>
void row_outer(const RowOuter<Acc>& args);

// y = x Phi(x), GELU with the error function (in f32 within 1e-7 |x|); slope: its derivative, or
// null. count: a multiple of kRowPad. y may be x.
template <class Acc>
void row_gelu(int64_t count, const Acc* x, Acc* y, Acc* slope);

// Layer norm of rows of `width` columns: out = (x - mean) * rstd, and rstd. The padding of out is
// zero.
template <class Acc>
void row_norm(int64_t rows, int64_t width, int64_t pitch, const Acc* x, Acc* out, Acc* rstd);
// grad: of the normed rows, becomes that of x.
template <class Acc>
void row_norm_backward(int64_t rows, int64_t width, int64_t pitch, const Acc* normed,
                       const Acc* rstd, Acc* grad);

}  // namespace lacuna
