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
  // Where any type differs, i32 [1, N, B], [1, D], [1]; on a GPU undefined where nobody asked.
  at::Tensor either_place, either_row, either_used;
  // Who computes on the rows looks at `used`: those that are not in use need not be zeros.
  bool counted = false;

  // The share of rows that are listed, of all types and samples; waits for the device.
  double listed_share() const;
  Cone either() const;  // the lists of all types together, as those of one
};

// Of the first layers, on the CPU. removed, ptr: as the operators take them. wild: whether rows of
// the wild type stand in front.
std::vector<Cone> make_cones(const std::vector<at::Tensor>& graph,
                             const std::vector<int64_t>& sizes, const at::Tensor& removed,
                             const at::Tensor& ptr, size_t layers, bool wild);
// The most rows that a layer's lists can hold: of a type, and of all types together (0: no such
// list is made).
struct ConeRoom {
  int64_t rows = 0, either = 0;
};
// Of the first layers, on a GPU; with rows of the wild type.
std::vector<Cone> make_cones(const std::vector<at::Tensor>& graph,
                             const std::vector<int64_t>& sizes, const at::Tensor& removed,
                             const at::Tensor& ptr, const std::vector<ConeRoom>& rooms);

// Mask records u8 [B + 1, stride] of the samples and the wild type, and where the mask of each type
// starts in a record.
struct ConeMasks {
  at::Tensor records;
  std::vector<int64_t> offsets;  // [T]
};
// x [N, H] in the first layer, else [N, B + 1, H] with the wild type last (on the CPU alone); eps
// [T] -> u [T, rows, H]. values [E]: what edges count, in the type of eps, or undefined: 1; on the
// CPU alone, and without a gradient.
at::Tensor cone_gin(const Cone& cone, const at::Tensor& x, const at::Tensor& eps,
                    const ConeMasks& masks = {}, const at::Tensor& values = {});
// The rows of a cone out of those of all samples, on a GPU: u [T, N, B + 1, H], the wild type last
// -> [T, rows, H]
at::Tensor cone_take(const Cone& cone, const at::Tensor& u);
// y [T, rows, H] -> [N, B + 1, H], the wild type last. wild_y [T, N, H]: where the cone has no rows
// of the wild type.
at::Tensor cone_sum(const Cone& cone, const at::Tensor& y, double share,
                    const at::Tensor& wild_y = {});
// The same rows of every type side by side: y [T, rows, H] -> [T, N + D, H], or [T, D, H]; what
// comes of them goes back by cone_sum(cone.either(), ..).
at::Tensor cone_gather(const Cone& cone, const at::Tensor& y, const at::Tensor& wild_y = {});

}  // namespace lacuna
