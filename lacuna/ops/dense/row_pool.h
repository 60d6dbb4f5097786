// Pooling over kept genes on the CPU, forward only: for each sample
//   out = sum over kept n of e^gate(x[n]) value(x[n]) / sum over kept n of e^gate(x[n])
// with gate = Linear(H, hidden), GELU, Linear(hidden, 1) and value = Linear(H, H), GELU; 0 where no
// gene is kept. A sample's result depends on its own rows alone.
#pragma once

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

template <class Real>
struct RowPoolCall {
  using Param = const Parameter<Real>;
  int64_t nodes = 0, samples = 0, width = 0, hidden = 0;   // N, B, H
  const Real* x = nullptr;                                 // [N, B, H]
  const bool* keep = nullptr;                              // [N, B]
  Param *hidden_weight = nullptr, *hidden_bias = nullptr;  // [H, hidden], [hidden]
  Param *gate_weight = nullptr, *gate_bias = nullptr;      // [hidden], [1]
  Param *value_weight = nullptr, *value_bias = nullptr;    // [H, H], [H]
  int threads = 0;
};
template <class Real>
void row_pool(const RowPoolCall<Real>& call, Parameter<Real>* out);  // [B, H]

}  // namespace lacuna
