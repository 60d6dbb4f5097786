// gelu(layer norm) of [G, rows, H] with a scale and shift a graph; differentiable.
#pragma once

#include <ATen/core/Tensor.h>

namespace lacuna {

// weight, bias [G, 1, H]. On a GPU one pass each way where the width allows it
// (ops/dense/norm_gelu_cuda.h); else torch's layer norm and GELU.
at::Tensor norm_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace lacuna
