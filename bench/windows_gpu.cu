// Windows of a movie in a GPU's memory (ops/cast/windows_cuda.h) beside a copy of device memory.
//
//   windows_gpu [batch] [lags] [side]      256 33 51 unless given
//
// A movie of 4 GB; the newest rows of the windows are random. Medians of 21 runs. What counts is
// bytes read and written a second: a gather reads a byte and writes two or four, a copy reads and
// writes the bytes that the gather writes.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/ops/cast/windows_cuda.h"

using namespace lacuna;

namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

template <class T>
T* make_room(size_t count) {
  void* room = nullptr;
  check(cudaMalloc(&room, count * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(room);
}

template <class F>
double median_ms(F run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  for (int i = 0; i < 5; ++i) run();
  std::vector<float> ms(21);
  for (float& t : ms) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    run();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&t, begin, end), "cudaEventElapsedTime");
  }
  std::ranges::nth_element(ms, ms.begin() + 10);
  return double(ms[10]);
}

template <class Real>
void measure(const char* name, const WindowsShape& shape, const uint8_t* movie,
             const int64_t* newest) {
  const size_t count = size_t(shape.batch * shape.lags * shape.pixels);
  Real* out = make_room<Real>(count);
  Real* other = make_room<Real>(count);
  const double gather = median_ms([&] { gather_windows_cuda(shape, movie, newest, out, nullptr); });
  const double copy = median_ms([&] {
    check(cudaMemcpyAsync(other, out, count * sizeof(Real), cudaMemcpyDeviceToDevice), "copy");
  });
  const double gathered = double(count) * (1 + sizeof(Real)) / gather * 1e-6;
  const double copied = double(count) * 2 * sizeof(Real) / copy * 1e-6;
  std::printf("%s: gather %.4f ms, %.0f GB/s; copy %.4f ms, %.0f GB/s; the gather reaches %.0f%%\n",
              name, gather, gathered, copy, copied, 100 * gathered / copied);
  cudaFree(out);
  cudaFree(other);
}

}  // namespace

int main(int argc, char** argv) {
  const auto given = [&](int i, long otherwise) {
    return argc > i ? std::atol(argv[i]) : otherwise;
  };
  const int64_t batch = given(1, 256), lags = given(2, 33), side = given(3, 51);
  const int64_t pixels = side * side, rows = 4'000'000'000 / pixels;
  const WindowsShape shape = {
      .rows = rows, .pixels = pixels, .batch = batch, .lags = lags, .step = 1};
  auto* movie = make_room<uint8_t>(size_t(rows * pixels + 16));
  check(cudaMemset(movie, 100, size_t(rows * pixels)), "cudaMemset");
  Random random(1, 1);
  std::vector<int64_t> newest(static_cast<size_t>(batch));
  for (int64_t& row : newest) row = lags - 1 + int64_t(random.below(uint64_t(rows - lags + 1)));
  auto* on_device = make_room<int64_t>(newest.size());
  check(cudaMemcpy(on_device, newest.data(), newest.size() * 8, cudaMemcpyHostToDevice), "copy");
  measure<BFloat16>("bf16", shape, movie, on_device);
  measure<float>("f32", shape, movie, on_device);
}
