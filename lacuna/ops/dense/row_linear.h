// A Linear on the CPU, y = x W + b, where a row's result depends on nothing but the row. BLAS adds
// up in other orders for other numbers of rows and threads.
#pragma once

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

// f32, bf16 (summed in f32) or f64
template <class Real>
struct RowLinearCall {
  int64_t rows = 0, in = 0, out = 0;
  const Real* x = nullptr;                                  // [rows, in]
  const Parameter<Real>*weight = nullptr, *bias = nullptr;  // [in, out], [out]
  int threads = 0;
};
template <class Real>
void row_linear(const RowLinearCall<Real>& call, Real* y);  // [rows, out]

}  // namespace lacuna
