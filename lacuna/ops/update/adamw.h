// AdamW over all parameters of a model on a GPU, the norm of the gradient clipped: two launches,
// however many parameters there are.
//
//   norm    = sqrt(sum of g^2 over all of them)
//   g       = g * min(1, clip / (norm + 1e-6))      where clip > 0
//   w       = w - lr * weight_decay * w
//   m       = m + (1 - beta1) (g - m),  v = v + (1 - beta2) (g^2 - v)
//   w       = w - lr * m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps)
//
// The parameters are cut into parts, which stand in one table in device memory: the first launch
// sums the squares of each part, in f64, and counts the step; the second adds up the parts, in
// their order, updates, and leaves zeros in place of the gradients, for the next ones to be added
// to. What changes from step to step stands in device memory, so that both can be recorded. The
// same bits in every run.
#pragma once

#include <cstdint>

#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

inline constexpr int32_t kAdamwPart = 2048;  // the most numbers of a part: eight a thread

struct AdamwPart {
  float *parameter = nullptr, *gradient = nullptr, *average = nullptr, *average_sq = nullptr;
  int32_t count = 0;  // of each
};

struct AdamwRule {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, clip = 0;
};

// All pointers are device memory.
struct AdamwCall {
  AdamwRule rule;
  int64_t parts = 0;
  const AdamwPart* table = nullptr;  // [parts]
  const float* lr = nullptr;         // [1]
  int64_t* step = nullptr;           // [1] updates so far; one more after the call
  double* sums = nullptr;            // [parts] scratch
  float* norm = nullptr;             // [1] written: of the gradient before it was clipped
};
void adamw_cuda(const AdamwCall& call, CudaStream stream);

}  // namespace lacuna
