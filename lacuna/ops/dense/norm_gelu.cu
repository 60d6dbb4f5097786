#include <algorithm>
#include <type_traits>

#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/dense/norm_gelu_cuda.h"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kThreads = 256;
constexpr int kEach = 8;              // elements a lane holds
constexpr int64_t kMostBlocks = 512;  // a graph in the backward pass: each leaves a partial sum

// Eight consecutive elements of a row, as floats.
template <class Real>
__device__ __forceinline__ void load(const Real* p, float (&v)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; i += kWide<Real>) {
    Pack<Real, kWide<Real>> pack;
    pack.load(p + i);
#pragma unroll
    for (int k = 0; k < kWide<Real>; ++k) v[i + k] = widen(pack.value[k]);
  }
}

template <class Real>
__device__ __forceinline__ void store(Real* p, const float (&v)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; i += kWide<Real>) {
    Pack<Real, kWide<Real>> pack;
#pragma unroll
    for (int k = 0; k < kWide<Real>; ++k) pack.value[k] = round_to<Real>(v[i + k]);
    pack.store(p + i);
  }
}

// Sum over the LANES lanes of a row; all of them get it.
template <int LANES>
__device__ __forceinline__ float sum_of_row(float v) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

// Replaces v by (v - mean) / sqrt(var + eps) and gives 1 / sqrt(var + eps).
template <int LANES>
__device__ __forceinline__ float standardise(float (&v)[kEach]) {
  constexpr float kShare = 1.0f / float(LANES * kEach);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += v[i];
  const float mean = sum_of_row<LANES>(sum) * kShare;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    v[i] -= mean;
    squares = fmaf(v[i], v[i], squares);
  }
  const float scale = rsqrtf(sum_of_row<LANES>(squares) * kShare + kNormEps);
#pragma unroll
  for (int i = 0; i < kEach; ++i) v[i] *= scale;
  return scale;
}

__device__ __forceinline__ float normal_below(float t) {
  return 0.5f * (1.0f + erff(t * 0.70710678f));
}

template <class Real, int LANES>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const Real* x, const float* weight, const float* bias, int64_t rows_a_graph,
                   int64_t rows, Real* y) {
  constexpr int kWidth = LANES * kEach;
  const int64_t row = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / LANES;
  const int column = int(threadIdx.x % LANES) * kEach;
  // A warp's lanes stay together for the shuffles: those beyond the end work on the last row.
  const int64_t mine = min(row, rows - 1);
  const int64_t graph = mine / rows_a_graph;
  float v[kEach], w[kEach], b[kEach];
  load(x + mine * kWidth + column, v);
  load(weight + graph * kWidth + column, w);
  load(bias + graph * kWidth + column, b);
  standardise<LANES>(v);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float t = fmaf(v[i], w[i], b[i]);
    v[i] = t * normal_below(t);
  }
  if (row < rows) store(y + row * kWidth + column, v);
}

// Blocks of one graph share its rows out; each leaves partial sums [2, H] of the gradients of
// weight and bias.
template <class Real, int LANES>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const Real* x, const float* weight, const float* bias, const Real* grad_y,
                    int64_t rows_a_graph, Real* grad_x, float* partial) {
  constexpr int kWidth = LANES * kEach, kRows = kThreads / LANES;
  __shared__ float shared[2][kRows][kWidth];
  const int64_t graph = blockIdx.y;
  const int place = int(threadIdx.x) / LANES, column = int(threadIdx.x % LANES) * kEach;
  const Real* from = x + graph * rows_a_graph * kWidth + column;
  const Real* grad = grad_y + graph * rows_a_graph * kWidth + column;
  Real* to = grad_x + graph * rows_a_graph * kWidth + column;
  float w[kEach], b[kEach], grad_w[kEach] = {}, grad_b[kEach] = {};
  load(weight + graph * kWidth + column, w);
  load(bias + graph * kWidth + column, b);
  for (int64_t first = int64_t(blockIdx.x) * kRows; first < rows_a_graph;
       first += int64_t(gridDim.x) * kRows) {
    const int64_t row = first + place;
    const bool is_row = row < rows_a_graph;
    const int64_t mine = is_row ? row : rows_a_graph - 1;
    float v[kEach], d[kEach];
    load(from + mine * kWidth, v);
    load(grad + mine * kWidth, d);
    const float scale = standardise<LANES>(v);
    float sum = 0, product = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float t = fmaf(v[i], w[i], b[i]);
      const float slope = fmaf(t * 0.39894228f, __expf(-0.5f * t * t), normal_below(t));
      const float dt = is_row ? d[i] * slope : 0.0f;
      grad_w[i] = fmaf(dt, v[i], grad_w[i]);
      grad_b[i] += dt;
      d[i] = dt * w[i];
      sum += d[i];
      product = fmaf(d[i], v[i], product);
    }
    constexpr float kShare = 1.0f / float(kWidth);
    sum = sum_of_row<LANES>(sum) * kShare;
    product = sum_of_row<LANES>(product) * kShare;
#pragma unroll
    for (int i = 0; i < kEach; ++i) d[i] = scale * (d[i] - sum - v[i] * product);
    if (is_row) store(to + row * kWidth, d);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    shared[0][place][column + i] = grad_w[i];
    shared[1][place][column + i] = grad_b[i];
  }
  __syncthreads();
  float* out = partial + (graph * gridDim.x + blockIdx.x) * 2 * kWidth;
  for (int i = int(threadIdx.x); i < 2 * kWidth; i += kThreads) {
    float total = 0;
    for (int k = 0; k < kRows; ++k) total += shared[i / kWidth][k][i % kWidth];
    out[i] = total;
  }
}

// partial [G, blocks, 2, H] -> grad_weight, grad_bias [G, H], in the order of the blocks.
__global__ void sum_kernel(const float* partial, int blocks, int width, float* grad_weight,
                           float* grad_bias) {
  const int64_t graph = blockIdx.x;
  for (int i = int(threadIdx.x); i < 2 * width; i += int(blockDim.x)) {
    float total = 0;
    for (int k = 0; k < blocks; ++k) total += partial[(graph * blocks + k) * 2 * width + i];
    (i < width ? grad_weight : grad_bias)[graph * width + i % width] = total;
  }
}

int64_t backward_blocks(const NormGeluShape& shape) {
  const int64_t rows_a_block = kThreads / (shape.width / kEach);
  return std::clamp<int64_t>(divide_up(shape.rows, rows_a_block), 1, kMostBlocks);
}

// Calls body with the number of lanes a row as a constant.
template <class Body>
void with_lanes(int64_t width, const Body& body) {
  switch (width / kEach) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 8:
      return body(std::integral_constant<int, 8>());
    case 16:
      return body(std::integral_constant<int, 16>());
    default:
      return body(std::integral_constant<int, 32>());
  }
}

void check_shape(const NormGeluShape& shape) {
  if (!norm_gelu_cuda_fits(shape.width))
    throw_error("norm_gelu: the width must be 8, 16, 32, 64, 128 or 256");
}

}  // namespace

bool norm_gelu_cuda_fits(int64_t width) {
  return width >= 8 && width <= 256 && (width & (width - 1)) == 0;
}

uint64_t norm_gelu_cuda_workspace(const NormGeluShape& shape) {
  return uint64_t(shape.graphs * backward_blocks(shape) * 2 * shape.width) * sizeof(float);
}

template <class Real>
void norm_gelu_cuda(const NormGeluShape& shape, const Real* x, const float* weight,
                    const float* bias, Real* y, CudaStream stream_) {
  check_shape(shape);
  const int64_t rows = shape.graphs * shape.rows;
  if (rows == 0) return;
  const auto stream = static_cast<cudaStream_t>(stream_);
  with_lanes(shape.width, [&](auto lanes) {
    const auto blocks = uint32_t(divide_up(rows * lanes.value, kThreads));
    forward_kernel<Real, lanes.value>
        <<<blocks, kThreads, 0, stream>>>(x, weight, bias, shape.rows, rows, y);
  });
  check_launch("norm_gelu");
}

template <class Real>
void norm_gelu_backward_cuda(const NormGeluShape& shape, const Real* x, const float* weight,
                             const float* bias, const Real* grad_y, Real* grad_x,
                             float* grad_weight, float* grad_bias, void* workspace,
                             CudaStream stream_) {
  check_shape(shape);
  if (shape.graphs == 0) return;
  const auto stream = static_cast<cudaStream_t>(stream_);
  const auto blocks = uint32_t(backward_blocks(shape));
  float* partial = static_cast<float*>(workspace);
  with_lanes(shape.width, [&](auto lanes) {
    backward_kernel<Real, lanes.value>
        <<<dim3(blocks, uint32_t(shape.graphs)), kThreads, 0, stream>>>(
            x, weight, bias, grad_y, shape.rows, grad_x, partial);
  });
  sum_kernel<<<uint32_t(shape.graphs), kThreads, 0, stream>>>(
      partial, int(blocks), int(shape.width), grad_weight, grad_bias);
  check_launch("norm_gelu_backward");
}

#define LACUNA_INSTANTIATE(Real)                                                                \
  template void norm_gelu_cuda<Real>(const NormGeluShape&, const Real*, const float*,           \
                                     const float*, Real*, CudaStream);                          \
  template void norm_gelu_backward_cuda<Real>(const NormGeluShape&, const Real*, const float*,  \
                                              const float*, const Real*, Real*, float*, float*, \
                                              void*, CudaStream);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)

}  // namespace lacuna
