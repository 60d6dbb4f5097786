// Layers on what differs (ops/cone/cone.h), on tensors and with gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lacuna/ops/cone/cone.h"

namespace lacuna {

// Which rows of a layer differ from the wild type's in a batch; made once a batch.
struct Cone {
  ConeShape shape;
  at::Tensor place, row, used;    // i32 [T, N, B], [T, C], [T]
  at::Tensor removed, ptr;        // as the operators take them
  std::vector<at::Tensor> graph;  // what the operators take
  std::vector<int64_t> graph_sizes;
  // Where any type differs, i32 [1, N, B], [1, D], [1]; on the CPU alone.
  at::Tensor either_place, either_row, either_used;

  // The share of rows that are listed, of all types and samples; waits for the device.
  double listed_share() const;
  Cone either() const;  // the lists of all types together, as those of one
};

// Of the first layer; capacity: of every type. removed, ptr: as the operators take them.
Cone make_cone(const std::vector<at::Tensor>& graph, const std::vector<int64_t>& sizes,
               const at::Tensor& removed, const at::Tensor& ptr, int64_t capacity);
// Of every layer, on the CPU. wild: whether rows of the wild type stand in front.
std::vector<Cone> make_cones(const std::vector<at::Tensor>& graph,
                             const std::vector<int64_t>& sizes, const at::Tensor& removed,
                             const at::Tensor& ptr, size_t layers, bool wild);

// Mask records u8 [B + 1, stride] of the samples and the wild type, and where the mask of each type
// starts in a record.
struct ConeMasks {
  at::Tensor records;
  std::vector<int64_t> offsets;  // [T]
};
// x [N, H] in the first layer, else [N, B + 1, H] with the wild type last (on the CPU alone); eps
// [T] -> u [T, rows, H]
at::Tensor cone_gin(const Cone& cone, const at::Tensor& x, const at::Tensor& eps,
                    const ConeMasks& masks = {});
// y [T, rows, H] -> [N, B + 1, H], the wild type last. wild_y [T, N, H]: where the cone has no rows
// of the wild type; on the CPU alone, as cone_gather().
at::Tensor cone_sum(const Cone& cone, const at::Tensor& y, double share,
                    const at::Tensor& wild_y = {});
// The same rows of every type side by side: y [T, rows, H] -> [T, N + D, H], or [T, D, H]; what
// comes of them goes back by cone_sum(cone.either(), ..).
at::Tensor cone_gather(const Cone& cone, const at::Tensor& y, const at::Tensor& wild_y = {});

}  // namespace lacuna
