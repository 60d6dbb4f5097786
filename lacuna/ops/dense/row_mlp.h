// The dense part of a layer on the CPU: for each graph
//   y = gelu(norm(four Linears with GELU between)) of every row u,
// a block of rows at a time, which goes through all of it while it is in the cache. Nothing but u
// is kept for the backward pass, which computes the block again.
//
//   u, y             [G, rows, H]   f32, bf16 or f64
//   weight, bias     [G, H, H], [G, H] of each Linear, y = x W + b
//   scale, shift     [G, H] of the layer norm
//   used             [G] how many rows of each graph are in use; null: all. The others are neither
//                    read nor written
//
// bf16 is a form of storage here: between u and y everything is f32, the parameters as they are.
// Tensor cores, which multiply bf16, round the parameters and what stands between the Linears too;
// to do the same here would take time and lose digits.
//
// A row's result depends on nothing but the row. Gradients of parameters are summed in an order
// that the sizes give, not the threads.
#pragma once

#include <array>

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

inline constexpr size_t kRowLinears = 4;

// Param: of the parameters or, not const, of their gradients.
template <class Param>
struct RowMlpParameters {
  std::array<Param*, kRowLinears> weight = {}, bias = {};
  Param *scale = nullptr, *shift = nullptr;
};

template <class Real>
struct RowMlpCall {
  int64_t graphs = 0, rows = 0, width = 0;
  const int32_t* used = nullptr;
  RowMlpParameters<const Parameter<Real>> parameters;
  const Real* u = nullptr;
  int threads = 0;
};
template <class Real>
void row_mlp(const RowMlpCall<Real>& call, Real* y);
// All gradients are written.
template <class Real>
void row_mlp_backward(const RowMlpCall<Real>& call, const Real* grad_y, Real* grad_u,
                      const RowMlpParameters<Parameter<Real>>& gradients);

}  // namespace lacuna
