// The attention merge of a layer (ops/dense/fused_attention.h), with gradients to y and to every
// parameter. The mean over the tokens is taken before the last Linear, which is the same and a G-th
// of the work; that Linear is torch's.
#pragma once

#include <ATen/core/Tensor.h>

namespace lacuna {

// All f32, weights [in, out].
struct AttentionParameters {
  at::Tensor position;                  // [G, H]
  at::Tensor query_weight, query_bias;  // [H, H], [H]
  at::Tensor key_weight, key_bias;      // as well
  at::Tensor value_weight, value_bias;  // as well
  at::Tensor out_weight, out_bias;      // as well
};

// Whether there is such a kernel for this y [G, rows, H]: bf16, on a GPU that has one, of a width
// and a number of graphs that it takes.
bool can_fuse_attention(const at::Tensor& y);

// y [G, rows, H] -> [rows, H]. used i32 [1]: how many rows are in use; the others of the result
// mean nothing, and their gradients do not matter. Only where can_fuse_attention().
at::Tensor fused_attention(const at::Tensor& y, const AttentionParameters& parameters,
                           const at::Tensor& used = {});

}  // namespace lacuna
