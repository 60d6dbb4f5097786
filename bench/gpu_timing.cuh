// What the programs of this folder share: calls that are checked, memory on the device, times.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA(call)                                                                \
  do {                                                                            \
    const cudaError_t status_ = (call);                                           \
    if (status_ != cudaSuccess) {                                                 \
      std::printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

template <class T>
struct Buffer {
  T* data = nullptr;
  size_t count;
  explicit Buffer(size_t n) : count(n) {
    CUDA(cudaMalloc(&data, std::max<size_t>(n * sizeof(T), 256)));
  }
  explicit Buffer(const std::vector<T>& v) : Buffer(v.size()) {
    CUDA(cudaMemcpy(data, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
};

// Of so many runs, after five to warm up.
template <class F>
double median_ms(F run, int times = 21) {
  cudaEvent_t begin, end;
  CUDA(cudaEventCreate(&begin));
  CUDA(cudaEventCreate(&end));
  for (int i = 0; i < 5; ++i) run();
  std::vector<float> ms(size_t(times), 0.f);
  for (float& t : ms) {
    CUDA(cudaEventRecord(begin));
    run();
    CUDA(cudaEventRecord(end));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&t, begin, end));
  }
  CUDA(cudaGetLastError());
  CUDA(cudaEventDestroy(begin));
  CUDA(cudaEventDestroy(end));
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}
