// The first layer on what differs (ops/cone/cone.h), on tensors and with gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include "lacuna/ops/cone/cone.h"

namespace lacuna {

// Which rows of a batch differ from the wild type's; made once a batch.
struct Cone {
  ConeShape shape;
  at::Tensor place, row, used;    // i32 [T, N, B], [T, C], [T]
  std::vector<at::Tensor> graph;  // what the operators take
  std::vector<int64_t> graph_sizes;
};

// removed, ptr: as the operators take them; capacity: of every type.
Cone make_cone(const std::vector<at::Tensor>& graph, const std::vector<int64_t>& sizes,
               const at::Tensor& removed, const at::Tensor& ptr, int64_t capacity);
// The capacity that a batch on the CPU needs, from its removed nodes.
int64_t cone_capacity_of(const std::vector<at::Tensor>& graph, const std::vector<int64_t>& sizes,
                         const at::Tensor& removed, const at::Tensor& ptr);
// x [N, H], eps [T] -> u [T, N + C, H]
at::Tensor cone_gin(const Cone& cone, const at::Tensor& x, const at::Tensor& eps);
// y [T, N + C, H] -> [N, B + 1, H], the wild type last
at::Tensor cone_sum(const Cone& cone, const at::Tensor& y, double share);

}  // namespace lacuna
