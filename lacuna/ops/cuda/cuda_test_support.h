// Device memory and graphs for the tests of device code; not a part of the library.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "lacuna/ops/cuda/cuda_graph.h"
#include "lacuna/ops/testing.h"

#define LACUNA_NEEDS_GPU()                                       \
  do {                                                           \
    int count = 0;                                               \
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) \
      GTEST_SKIP() << "no GPU: this test needs one";             \
  } while (false)

namespace lacuna::testing {

// An array in device memory. New memory is poison (bytes 0xff: NaN in every float type).
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, std::max<size_t>(count * sizeof(T), 1)), cudaSuccess);
    EXPECT_EQ(cudaMemset(p, 0xff, count * sizeof(T)), cudaSuccess);
    memory_.reset(static_cast<T*>(p), [](T* q) { cudaFree(q); });
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  T* data() const { return memory_.get(); }
  size_t size() const { return count_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    const cudaError_t status =
        cudaMemcpy(values.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost);
    EXPECT_EQ(status, cudaSuccess) << cudaGetErrorString(status);
    return values;
  }

 private:
  size_t count_;
  std::shared_ptr<T> memory_;
};

inline DeviceArray<std::byte> to_device(std::span<const std::byte> bytes) {
  return DeviceArray<std::byte>(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

// A graph with its plans on both sides. capacity 0: no slabs.
struct DeviceGraph {
  GraphPlan plan;
  std::optional<SlabPlan> slabs;
  DeviceArray<std::byte> plan_bytes, slab_bytes;

  DeviceGraph(const RandomGraph& graph, uint32_t capacity)
      : plan(graph.plan()),
        slabs(capacity > 0 ? std::optional(SlabPlan::make(plan, {capacity})) : std::nullopt),
        plan_bytes(to_device(plan.bytes())),
        slab_bytes(slabs ? to_device(slabs->bytes()) : DeviceArray<std::byte>(0)) {}
  CudaGraph view() const {
    if (!slabs) return {&plan, plan_bytes.data(), nullptr, nullptr};
    return {&plan, plan_bytes.data(), &*slabs, slab_bytes.data()};
  }
};

struct DeviceRemoved {
  DeviceArray<int32_t> index, ptr;
  explicit DeviceRemoved(const RandomRemoved& removed) : index(removed.index), ptr(removed.ptr) {}
  CudaRemoved view() const {
    return {index.data(), ptr.data(), int64_t(index.size()), int64_t(ptr.size()) - 1};
  }
  RemovedView nodes() const { return {{index.data(), index.size()}, {ptr.data(), ptr.size()}}; }
};

// make_call() of arrays on the device.
template <class Real>
AggregateCall<Real> device_call(const Reduction& how, const Keep& keep, int64_t width,
                                const DeviceArray<Real>& x,
                                const DeviceArray<Parameter<Real>>& values,
                                const DeviceArray<Parameter<Real>>& eps) {
  return {.reduce = how.reduce,
          .sum_types = how.sum_types,
          .keep = keep,
          .width = width,
          .x = x.data(),
          .values = values.size() > 0 ? values.data() : nullptr,
          .eps = eps.size() > 0 ? eps.data() : nullptr};
}

}  // namespace lacuna::testing
