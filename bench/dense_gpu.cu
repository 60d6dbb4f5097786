// The dense kernels of a layer by themselves: MLPs, pairwise merge, attention.
//
//   dense_gpu [rows] [graphs] [kernel]    191603 rows, 9 graphs; mlp, pairwise or attention alone
//
// Medians of 21 runs in milliseconds, after 5 to warm up, forward and backward, for every width
// that the device takes. `portable` are the kernels of compute capability 8.0 on a newer device;
// KB is what a block may have of shared memory. Inputs are random.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpu_timing.cuh"
#include "lacuna/core/random.h"
#include "lacuna/ops/dense/fused_attention.h"
#include "lacuna/ops/dense/fused_mlp.h"
#include "lacuna/ops/dense/fused_pairwise.h"

using namespace lacuna;

namespace {

// Random numbers on the device.
template <class T>
struct Drawn : Buffer<T> {
  Drawn(uint64_t count, double spread) : Buffer<T>(count) {
    static Random random(1);
    std::vector<T> values(std::min<uint64_t>(count, 1 << 20));  // repeated
    for (T& v : values) v = T(float(spread * random.normal()));
    for (uint64_t at = 0; at < count; at += values.size())
      CUDA(cudaMemcpy(this->data + at, values.data(),
                      std::min<uint64_t>(values.size(), count - at) * sizeof(T),
                      cudaMemcpyHostToDevice));
  }
};

void print(const std::string& name, double forward, double backward) {
  std::printf("%-32s %8.3f %8.3f\n", name.c_str(), forward, backward);
  std::fflush(stdout);
}
std::string named(const char* kernel, int64_t width, bool portable, int kilobytes) {
  return std::string(kernel) + " " + std::to_string(width) + (portable ? ", portable" : "") +
         (kilobytes ? ", " + std::to_string(kilobytes) + " KB" : "");
}

constexpr int64_t kWidths[] = {32, 64, 128};

void time_mlp(int64_t graphs, int64_t rows, int64_t width, bool merged, bool portable,
              int kilobytes) {
  if (!fused_mlp_fits(width, portable)) return;
  const FusedMlpShape shape = {graphs, rows, width, merged, 1, nullptr, portable, kilobytes * 1024};
  const uint64_t inputs = uint64_t(graphs * rows * width);
  const uint64_t outputs = merged ? inputs / uint64_t(graphs) : inputs;
  const uint64_t weights = uint64_t(graphs * width * width), biases = uint64_t(graphs * width);
  const Drawn<BFloat16> u(inputs, 1), grad_y(outputs, 1);
  const Buffer<BFloat16> y(outputs), grad_u(inputs);
  const Drawn<float> weight(weights, 0.2), vector(biases, 1);
  const Buffer<float> sums(weights);
  const Buffer<std::byte> packed(fused_mlp_packed_bytes(shape)),
      workspace(fused_mlp_backward_workspace(shape));
  FusedMlpParameters<const float> from = {};
  FusedMlpParameters<float> to = {};
  for (int l = 0; l < kMlpLinears; ++l) {
    from.weight[l] = weight.data, from.bias[l] = vector.data;
    to.weight[l] = to.bias[l] = sums.data;
  }
  from.norm_weight = from.norm_bias = vector.data;
  to.norm_weight = to.norm_bias = sums.data;
  fused_mlp_pack(shape, from, packed.data, nullptr);
  print(named(merged ? "mlp and sum" : "mlp", width, portable, kilobytes),
        median_ms([&] { fused_mlp(shape, packed.data, u.data, y.data, nullptr); }), median_ms([&] {
          fused_mlp_backward(shape, packed.data, u.data, grad_y.data, grad_u.data, to,
                             workspace.data, nullptr);
        }));
}

void time_pairwise(int64_t graphs, int64_t rows, int64_t width) {
  if (!fused_pairwise_fits(graphs, width)) return;
  const FusedPairwiseShape shape = {graphs, rows, width};
  const uint64_t outputs = uint64_t(rows * width), inputs = outputs * uint64_t(graphs);
  const uint64_t weights = uint64_t(shape.pairs() * width * 2 * kPairwiseHidden);
  const Drawn<BFloat16> y(inputs, 1), grad_x(outputs, 1);
  const Buffer<BFloat16> x(outputs), sum(outputs), mean(outputs), grad_y(inputs);
  const Drawn<float> weight(weights, 0.2);
  const Buffer<float> sums(weights), log_sum{uint64_t(rows)};
  const Buffer<std::byte> packed(fused_pairwise_packed_bytes(shape)),
      workspace(fused_pairwise_backward_workspace(shape));
  const float* w = weight.data;
  float* s = sums.data;
  const FusedPairwiseParameters<const float> from = {w, w, w, w, w, w, w, w, w, w};
  const FusedPairwiseParameters<float> to = {s, s, s, s, s, s, s, s, s, s};
  fused_pairwise_pack(shape, from, packed.data, nullptr);
  print(named("pairwise", width, false, 0), median_ms([&] {
          fused_pairwise(shape, packed.data, y.data, x.data, {sum.data, mean.data, log_sum.data},
                         nullptr);
        }),
        median_ms([&] {
          fused_pairwise_backward(shape, packed.data, from, y.data,
                                  {sum.data, mean.data, log_sum.data}, grad_x.data, grad_y.data, to,
                                  workspace.data, nullptr);
        }));
}

void time_attention(int64_t graphs, int64_t rows, int64_t width, int kilobytes) {
  if (!fused_attention_fits(graphs, width)) return;
  const FusedAttentionShape shape = {graphs, rows, width, nullptr, kilobytes * 1024};
  const uint64_t outputs = uint64_t(rows * width), inputs = outputs * uint64_t(graphs);
  const Drawn<BFloat16> y(inputs, 1), grad_z(outputs, 1);
  const Buffer<BFloat16> z(outputs), grad_y(inputs);
  const Drawn<float> weight(uint64_t(width * width), 0.15);
  const Buffer<float> sums{uint64_t(width * width)};
  const Buffer<std::byte> packed(fused_attention_packed_bytes(shape)),
      workspace(fused_attention_backward_workspace(shape));
  const float* w = weight.data;
  float* s = sums.data;
  fused_attention_pack(shape, {w, {w, w, w}, {w, w, w}}, packed.data, nullptr);
  print(named("attention", width, false, kilobytes),
        median_ms([&] { fused_attention(shape, packed.data, y.data, z.data, nullptr); }),
        median_ms([&] {
          fused_attention_backward(shape, packed.data, y.data, grad_z.data, grad_y.data,
                                   {s, {s, s, s}, {s, s, s}}, workspace.data, nullptr);
        }));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 191603;
  const int64_t graphs = argc > 2 ? std::atoll(argv[2]) : 9;
  const std::string only = argc > 3 ? argv[3] : "";
  const auto asked = [&](const char* kernel) { return only.empty() || only == kernel; };
  std::printf("%lld rows, %lld graphs             forward backward\n", (long long)rows,
              (long long)graphs);
  for (const int64_t width : kWidths) {
    if (asked("attention"))
      for (const int kilobytes : {0, 163, 99}) time_attention(graphs, rows, width, kilobytes);
    if (asked("pairwise")) time_pairwise(graphs, rows, width);
    if (asked("mlp")) {
      for (const bool merged : {false, true}) time_mlp(graphs, rows, width, merged, false, 0);
      for (const int kilobytes : {0, 163, 99}) time_mlp(graphs, rows, width, true, true, kilobytes);
    }
  }
}
