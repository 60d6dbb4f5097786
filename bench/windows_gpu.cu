// Windows of a movie in a GPU's memory (ops/cast/windows_cuda.h) beside a copy of device memory.
//
//   windows_gpu [batch] [lags] [side]      256 33 51 unless given
//
// A movie of 4 GB; the newest rows of the windows are random. Medians of 21 runs. What counts is
// bytes read and written a second: a gather reads a byte and writes two or four, a copy reads and
// writes the bytes that the gather writes.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpu_timing.cuh"
#include "lacuna/core/random.h"
#include "lacuna/ops/cast/windows_cuda.h"

using namespace lacuna;

namespace {

template <class Real>
void measure(const char* name, const WindowsShape& shape, const uint8_t* movie,
             const int64_t* newest) {
  const size_t count = size_t(shape.batch * shape.lags * shape.pixels);
  const Buffer<Real> out(count), other(count);
  const double gather =
      median_ms([&] { gather_windows_cuda(shape, movie, newest, out.data, nullptr); });
  const double copy = median_ms([&] {
    CUDA(cudaMemcpyAsync(other.data, out.data, count * sizeof(Real), cudaMemcpyDeviceToDevice));
  });
  const double gathered = double(count) * (1 + sizeof(Real)) / gather * 1e-6;
  const double copied = double(count) * 2 * sizeof(Real) / copy * 1e-6;
  std::printf("%s: gather %.4f ms, %.0f GB/s; copy %.4f ms, %.0f GB/s; the gather reaches %.0f%%\n",
              name, gather, gathered, copy, copied, 100 * gathered / copied);
}

}  // namespace

int main(int argc, char** argv) {
  const auto given = [&](int i, long otherwise) {
    return argc > i ? std::atol(argv[i]) : otherwise;
  };
  const int64_t batch = given(1, 256), lags = given(2, 33), side = given(3, 51);
  const int64_t pixels = side * side, rows = 4'000'000'000 / pixels;
  const WindowsShape shape = {rows, pixels, batch, lags, /*step=*/1};
  const Buffer<uint8_t> movie(size_t(rows * pixels + 16));
  CUDA(cudaMemset(movie.data, 100, movie.count));
  Random random(1, 1);
  std::vector<int64_t> newest(static_cast<size_t>(batch));
  for (int64_t& row : newest) row = lags - 1 + int64_t(random.below(uint64_t(rows - lags + 1)));
  const Buffer<int64_t> on_device(newest);
  measure<BFloat16>("bf16", shape, movie.data, on_device.data);
  measure<float>("f32", shape, movie.data, on_device.data);
}
