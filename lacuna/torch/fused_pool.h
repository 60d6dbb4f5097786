// Softmax pooling in one kernel each way (ops/dense/fused_pool.h), with gradients to x and to every
// parameter.
#pragma once

#include <ATen/core/Tensor.h>

namespace lacuna {

struct PoolParameters {                             // f32
  at::Tensor gate_hidden_weight, gate_hidden_bias;  // [H, H / 2], [H / 2]
  at::Tensor gate_weight, gate_bias;                // [H / 2, 1], [1]
  at::Tensor value_weight, value_bias;              // [H, H], [H]
};

// Whether there is such a kernel for this x: bf16, on a GPU that has one, of a width it takes.
bool can_fuse_pool(const at::Tensor& x);

// x [N, B, H], keep [N, B] bool -> [B, H] f32. Only where can_fuse_pool().
at::Tensor fused_pool(const at::Tensor& x, const at::Tensor& keep,
                      const PoolParameters& parameters);

}  // namespace lacuna
