// What the torch operators share: words for a wrong argument, the choice by dtype, and the way from
// tensors to the raw pointers that lacuna/ops works on. Only for the .cpp files of the operators.
//
// Checks look at shapes, dtypes and devices, and go by symbolic sizes, so that the same ones serve
// the real operators and the meta functions of torch.compile. They throw lacuna::Error, which
// Python sees as a RuntimeError that names the argument.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna::torch_ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

template <class T>
std::string text(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

inline bool given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

// ---- the graph: buffers[0] holds the plan's bytes, sizes = {N, T, E_0 .. E_(T-1)}, so that no one
// needs to read the plan back from a device to know a shape.
struct GraphSizes {
  explicit GraphSizes(at::IntArrayRef sizes);

  int64_t nodes, types, edges;  // edges: of all types
};

inline GraphSizes::GraphSizes(at::IntArrayRef sizes) {
  if (sizes.size() < 2 || int64_t(sizes.size()) < 2 + sizes[1])
    throw Error(
        "sizes holds {} numbers, but a graph has two and one for each edge type; pass those of the "
        "Graph that the buffers came from",
        sizes.size());
  nodes = sizes[0];
  types = sizes[1];
  edges = 0;
  for (int64_t t = 0; t < types; ++t) edges += sizes[2 + t];
}

// ---- checks; `name` is the argument's
inline void check_device(const char* name, const Tensor& tensor, c10::Device device,
                         const char* other = "x") {
  if (tensor.device() != device)
    throw Error("{} is on {}, but {} is on {}; move one of them with .to()", name,
                text(tensor.device()), other, text(device));
}

inline void check_dtype(const char* name, const Tensor& tensor, at::ScalarType dtype) {
  if (tensor.scalar_type() != dtype)
    throw Error("{} has dtype {}, but {} is needed", name, c10::toString(tensor.scalar_type()),
                c10::toString(dtype));
}

inline void check_real(const char* name, const Tensor& tensor) {
  const auto dtype = tensor.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kDouble)
    throw Error("{} has dtype {}, but Float, BFloat16 or Double is needed", name,
                c10::toString(dtype));
}

inline void check_dim(const char* name, const Tensor& tensor, int64_t dims, const char* shape) {
  if (tensor.dim() != dims)
    throw Error("{} has shape {}, but {} is needed", name, text(tensor.sym_sizes()), shape);
}

inline void check_size(const char* name, const Tensor& tensor, int64_t axis,
                       const c10::SymInt& wanted, const char* shape) {
  if (tensor.sym_size(axis) != wanted)
    throw Error("{} has shape {}, but {} with {} along axis {} is needed", name,
                text(tensor.sym_sizes()), shape, text(wanted), axis);
}

inline void check_graph(at::TensorList graph, c10::Device device) {
  if (graph.empty()) throw Error("graph holds no buffer; pass those of a Graph");
  for (const Tensor& buffer : graph) check_device("graph", buffer, device);
}

// f32 parameters beside f32 and bf16, f64 beside f64: lacuna::Parameter<Real>.
inline at::ScalarType parameter_dtype(at::ScalarType real) {
  return real == at::kDouble ? at::kDouble : at::kFloat;
}

// removed [any], ptr [B + 1], both int32. The values are read where the data is: see
// check_removed().
inline void check_removed_shapes(const Tensor& removed, const Tensor& ptr, c10::Device device) {
  check_device("removed", removed, device);
  check_device("ptr", ptr, device);
  check_dtype("removed", removed, at::kInt);
  check_dtype("ptr", ptr, at::kInt);
  check_dim("removed", removed, 1, "[ptr[B]] or longer");
  check_dim("ptr", ptr, 1, "[B + 1]");
  if (ptr.sym_size(0) < 1) throw Error("ptr is empty; a batch of B samples needs B + 1 numbers");
}

// ---- from tensors to pointers; the tensors are contiguous and outlive the call
template <class T>
std::span<const T> span_of(const Tensor& tensor) {
  return {static_cast<const T*>(tensor.const_data_ptr()), size_t(tensor.numel())};
}

inline RemovedView removed_view(const Tensor& removed, const Tensor& ptr) {
  return {span_of<int32_t>(removed), span_of<int32_t>(ptr)};
}

inline GraphPlan plan_of(at::TensorList graph, const GraphSizes& sizes) {
  const Tensor& bytes = graph[0];
  check_dtype("graph", bytes, at::kByte);
  GraphPlan plan = GraphPlan::from_bytes(std::as_bytes(span_of<uint8_t>(bytes)), nullptr);
  if (plan.node_count() != sizes.nodes || plan.type_count() != sizes.types ||
      int64_t(plan.edge_count()) != sizes.edges)
    throw Error("sizes do not belong to graph: the plan has {} nodes, {} types and {} edges",
                plan.node_count(), plan.type_count(), plan.edge_count());
  return plan;
}

template <class Real>
const Real* data(const Tensor& tensor) {
  return static_cast<const Real*>(tensor.const_data_ptr());
}
template <class Real>
const Real* data(const OptionalTensor& tensor) {
  return given(tensor) ? data<Real>(*tensor) : nullptr;
}
template <class Real>
Real* mutable_data(const Tensor& tensor) {
  return static_cast<Real*>(tensor.mutable_data_ptr());
}

inline OptionalTensor contiguous(const OptionalTensor& tensor) {
  return given(tensor) ? OptionalTensor(tensor->contiguous()) : std::nullopt;
}

// Row `row` of edges [2, E] of any integer type as u32; what does not fit becomes 2^32 - 1, which
// is no node.
inline std::vector<uint32_t> node_indices(const Tensor& edges, int64_t row) {
  const Tensor line = edges.select(0, row).to(at::kLong).contiguous();
  std::vector<uint32_t> indices(size_t(line.numel()));
  const int64_t* from = data<int64_t>(line);
  for (size_t e = 0; e < indices.size(); ++e)
    indices[e] = from[e] < 0 || from[e] >= UINT32_MAX ? UINT32_MAX : uint32_t(from[e]);
  return indices;
}

inline Tensor copy_bytes(std::span<const std::byte> bytes) {
  const Tensor tensor = at::empty({int64_t(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, mutable_data<std::byte>(tensor));
  return tensor;
}

// Calls body(Real()) with the C++ type of a dtype that passed check_real().
template <class Body>
void with_real(at::ScalarType dtype, const Body& body) {
  if (dtype == at::kDouble) return body(double());
  if (dtype == at::kBFloat16) return body(BFloat16());
  body(float());
}

// The stream that torch is working on, as a cudaStream_t. The device guard knows it, so none of
// torch's CUDA headers (which a CPU torch ships, but cannot compile) is needed.
inline void* current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

}  // namespace lacuna::torch_ops
