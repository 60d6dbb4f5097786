// aggregate() in plain loops over the edge lists, in double: what every faster version is held
// against.
//
// Arguments and shapes as in aggregate.h; an empty span stands for a null pointer. It walks edges
// one by one in their own order and shares no code with what it judges. Slow: for tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

struct ReferenceInput {
  uint32_t node_count = 0;
  std::span<const EdgeList> types;
  Reduce reduce = Reduce::sum;
  bool sum_types = false;
  int64_t width = 0;
  RemovedView removed;
  std::span<const double> x;       // [N, B, H]
  std::span<const double> values;  // [E] or empty
  std::span<const double> eps;     // [T] or empty
};

std::vector<double> aggregate_reference(const ReferenceInput& input);  // [T, N, B, H] or [N, B, H]

struct ReferenceGradients {
  std::vector<double> x;       // [N, B, H]
  std::vector<double> eps;     // [T], empty without eps
  std::vector<double> values;  // [E], empty without values
};
ReferenceGradients aggregate_reference_backward(const ReferenceInput& input,
                                                std::span<const double> grad_out);

}  // namespace lacuna
