// The way from tensors on a GPU to the device functions of lacuna/ops. Only for the .cpp files of
// the operators, where LACUNA_HAVE_CUDA is set.
//
// The device functions want a graph's plans on the host as well as on the device, but an operator
// may only be given tensors of one device. So the host's plans are kept here, by number:
// place_graph() makes the device's copies and a number, which stands in `sizes` behind the edge
// counts. The plans stay as long as the device's copy, which a pending backward pass holds on to.
//
// Index values are checked by the kernels, which skip a wrong one and set a bit of an error word in
// pinned host memory. Every operator looks at that word first and throws for what an earlier one
// was given; nothing ever waits.
#pragma once

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <memory>

#include "lacuna/ops/bipartite/bipartite.h"
#include "lacuna/ops/cuda/cuda_graph.h"
#include "lacuna/torch/common.h"

namespace lacuna::torch_ops {

struct HostGraph {
  Tensor bytes, slab_bytes;  // own what the plans look at
  GraphPlan plan;
  std::optional<SlabPlan> slabs;
};
// Throws Error when there is none of that number.
std::shared_ptr<const HostGraph> host_graph(int64_t number);

// The number behind the `first` sizes that describe a graph. Throws Error when it is missing.
int64_t graph_number(at::IntArrayRef sizes, int64_t first);

// Throws Error where an earlier operator was given a wrong index, once.
void throw_pending_error();

// What a launch needs besides its arguments; made at the start of an operator, which it binds to
// the device.
class Launch {
 public:
  explicit Launch(c10::Device device);

  CudaStream stream() const { return stream_; }
  int32_t* error() const { return error_; }
  // Until the Launch ends (on the stream: torch reuses memory in stream order).
  void* workspace(uint64_t bytes);
  CudaLaunch with_workspace(uint64_t bytes) { return {stream_, workspace(bytes), error_}; }

 private:
  c10::DeviceGuard guard_;
  CudaStream stream_;
  int32_t* error_;
  Tensor workspace_;
};

// A graph on the device: graph[0] the plan, graph[1] the slab plan or nothing.
struct DeviceGraph {
  DeviceGraph(at::TensorList graph, at::IntArrayRef sizes);

  std::shared_ptr<const HostGraph> host;
  CudaGraph view;
};

inline CudaRemoved cuda_removed(const Tensor& removed, const Tensor& ptr) {
  return {data<int32_t>(removed), data<int32_t>(ptr), removed.numel(), ptr.numel() - 1};
}

}  // namespace lacuna::torch_ops
