#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/update/adamw.h"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kUpdateThreads = 256;
constexpr int kWarps = kUpdateThreads / 32;
static_assert(kAdamwPart % kUpdateThreads == 0, "every thread of a block takes as many numbers");

// Sum over the block, in an order that nothing changes; all threads get it.
__device__ double sum_of_block(double v) {
  __shared__ double of_warp[kWarps];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += of_warp[w];
  return sum;
}

// A block a part.
__global__ void __launch_bounds__(kUpdateThreads)
    squares_kernel(const AdamwPart* table, double* sums, int64_t* step) {
  const AdamwPart part = table[blockIdx.x];
  double squares = 0;
#pragma unroll
  for (int first = 0; first < kAdamwPart; first += kUpdateThreads) {
    const int i = first + int(threadIdx.x);
    const double g = i < part.count ? double(part.gradient[i]) : 0;
    squares = fma(g, g, squares);
  }
  squares = sum_of_block(squares);
  if (threadIdx.x == 0) sums[blockIdx.x] = squares;
  if (threadIdx.x == 0 && blockIdx.x == 0) ++*step;  // read by the next launch alone
}

// What is the same for all numbers of a step.
struct StepFactors {
  float clip, decay, rate, root;  // g *= clip; w *= decay; w -= rate m / (sqrt(v) * root + eps)
};

__device__ StepFactors step_factors(const AdamwRule& rule, float norm, double lr, int64_t step) {
  const float shrink = float(rule.clip) / (norm + 1e-6f);
  StepFactors factors;
  factors.clip = rule.clip > 0 && !(shrink > 1) ? shrink : 1;  // a NaN stays one
  factors.decay = float(1 - lr * rule.weight_decay);
  factors.rate = float(lr / (1 - pow(rule.beta1, double(step))));
  factors.root = float(1 / sqrt(1 - pow(rule.beta2, double(step))));
  return factors;
}

// A block a part. Every block adds up all parts for itself: a few thousand numbers in a cache.
__global__ void __launch_bounds__(kUpdateThreads)
    update_kernel(const AdamwRule rule, const AdamwPart* table, int64_t parts, const double* sums,
                  const float* lr, const int64_t* step, float* norm_out) {
  __shared__ StepFactors shared;
  double squares = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kUpdateThreads) squares += sums[i];
  squares = sum_of_block(squares);
  if (threadIdx.x == 0) {
    const float norm = float(sqrt(squares));
    shared = step_factors(rule, norm, double(*lr), *step);
    if (blockIdx.x == 0) *norm_out = norm;
  }
  __syncthreads();
  const StepFactors factors = shared;
  const float own1 = float(1 - rule.beta1), own2 = float(1 - rule.beta2), eps = float(rule.eps);
  const AdamwPart part = table[blockIdx.x];
#pragma unroll
  for (int first = 0; first < kAdamwPart; first += kUpdateThreads) {
    const int i = first + int(threadIdx.x);
    if (i >= part.count) break;
    const float g = part.gradient[i] * factors.clip;
    const float m = fmaf(own1, g - part.average[i], part.average[i]);
    const float v = fmaf(own2, fmaf(g, g, -part.average_sq[i]), part.average_sq[i]);
    const float w = part.parameter[i] * factors.decay;
    part.parameter[i] = w - factors.rate * m / fmaf(sqrtf(v), factors.root, eps);
    part.average[i] = m;
    part.average_sq[i] = v;
    part.gradient[i] = 0;
  }
}

}  // namespace

void adamw_cuda(const AdamwCall& call, CudaStream stream) {
  if (call.parts == 0) return;
  const auto blocks = unsigned(call.parts);
  squares_kernel<<<blocks, kUpdateThreads, 0, cudaStream_t(stream)>>>(call.table, call.sums,
                                                                      call.step);
  check_launch("adamw: squares");
  update_kernel<<<blocks, kUpdateThreads, 0, cudaStream_t(stream)>>>(
      call.rule, call.table, call.parts, call.sums, call.lr, call.step, call.norm);
  check_launch("adamw: update");
}

}  // namespace lacuna
