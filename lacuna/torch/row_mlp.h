// Dense work on rows on the CPU (ops/dense/row_linear.h, row_mlp.h, row_pool.h), on tensors.
#pragma once

#include "lacuna/torch/fused_mlp.h"
#include "lacuna/torch/fused_pool.h"

namespace lacuna {

// x [rows, in], weight [in, out], bias [out], of the parameters' dtype -> [rows, out]; without
// gradients.
at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// u [G, rows, H] -> y [G, rows, H], with gradients to u and to every parameter. used i32 [G] or
// undefined: how many rows of each graph are in use; the others of y mean nothing.
at::Tensor row_mlp(const at::Tensor& u, const MlpParameters& parameters,
                   const at::Tensor& used = {});

// x [N, B, H], keep [N, B] bool -> [B, H], f32 or wider; without gradients.
at::Tensor row_pool(const at::Tensor& x, const at::Tensor& keep, const PoolParameters& parameters);

}  // namespace lacuna
