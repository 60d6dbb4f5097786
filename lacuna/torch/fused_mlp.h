// The dense part of a layer in one kernel each way (ops/dense/fused_mlp.h), with gradients to u and
// to every parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

namespace lacuna {

struct MlpParameters {
  std::array<at::Tensor, 4> weight, bias;  // f32 [G, in, out], [G, 1, out]
  at::Tensor norm_weight, norm_bias;       // f32 [G, 1, H]
};

// Whether there is such a kernel for this u: bf16, on a GPU that has one, of a width it takes.
bool can_fuse_mlp(const at::Tensor& u);

// u [G, rows, H] -> y [G, rows, H]; with a share [rows, H], the sum of y over the graphs times it.
// used i32 [G], without a share: how many rows of each graph are in use; the others of y mean
// nothing. Only where can_fuse_mlp().
at::Tensor fused_mlp(const at::Tensor& u, const MlpParameters& parameters,
                     std::optional<double> share = {}, const at::Tensor& used = {});

}  // namespace lacuna
