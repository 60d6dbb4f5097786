#if LACUNA_HAVE_CUDA
#include "lacuna/torch/cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "lacuna/ops/cuda/shared_memory_cuda.h"

namespace lacuna::torch_ops {
namespace {

// ---- the host's plans by number. Never destroyed: tensors may outlive it at the process's end.
struct Registry {
  std::mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<const HostGraph>> graphs;
  int64_t next = 1;
};
Registry& registry() {
  static auto* const one = new Registry;
  return *one;
}

int64_t add(std::shared_ptr<const HostGraph> graph) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.graphs[all.next] = std::move(graph);
  return all.next++;
}

void remove(int64_t number) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.graphs.erase(number);
}

// The error word: one for the process, pinned, so that every device can write to it and the host
// can read it at any time.
int32_t* error_word() {
  static const auto* const word =
      new Tensor(at::zeros({1}, at::TensorOptions(at::kInt).pinned_memory(true)));
  return mutable_data<int32_t>(*word);
}

// ready: the slab plan where it was made before.
std::shared_ptr<const HostGraph> make_host_graph(const Tensor& bytes, bool slabs,
                                                 const OptionalTensor& ready) {
  auto graph = std::make_shared<HostGraph>();
  graph->bytes = bytes;
  graph->plan = GraphPlan::from_bytes(std::as_bytes(span_of<uint8_t>(bytes)), nullptr);
  const uint32_t nodes = graph->plan.node_count();
  if (slabs && nodes < 65536 && graph->plan.edge_count() > 0) {
    const uint32_t capacity =
        slab_capacity(cuda_shared_memory_bytes(), nodes, graph->plan.type_count());
    graph->slab_bytes = given(ready) ? ready->contiguous()
                                     : copy_bytes(SlabPlan::make(graph->plan, {capacity}).bytes());
    graph->slabs =
        SlabPlan::from_bytes(std::as_bytes(span_of<uint8_t>(graph->slab_bytes)), nullptr);
    graph->slabs->check_graph(graph->plan);
  } else {
    graph->slab_bytes = at::empty({0}, at::kByte);
  }
  return graph;
}

// Copies of a plan and of its slab plan on the device of `like`, and the number of the host's.
std::tuple<Tensor, Tensor, int64_t> place_graph(const Tensor& bytes, const Tensor& like, bool slabs,
                                                const OptionalTensor& ready) {
  const c10::DeviceGuard guard(like.device());
  error_word();  // here, where memory may be allocated: a captured graph may be the next to need it
  const std::shared_ptr<const HostGraph> host = make_host_graph(bytes.contiguous(), slabs, ready);
  const int64_t number = add(host);
  const Tensor on_device = host->bytes.to(like.device());
  const Tensor plan = at::from_blob(
      on_device.mutable_data_ptr(), on_device.sizes(),
      [on_device, number](void*) { remove(number); }, on_device.options());
  return {plan, host->slab_bytes.to(like.device()), number};
}

}  // namespace

std::shared_ptr<const HostGraph> host_graph(int64_t number) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.graphs.find(number);
  if (found == all.graphs.end())
    throw Error(
        "sizes names graph {}, which is on no device any more; move a Graph there with .to()",
        number);
  return found->second;
}

int64_t graph_number(at::IntArrayRef sizes, int64_t first) {
  if (int64_t(sizes.size()) <= first)
    throw Error("sizes are those of a graph on the cpu; move it with .to()");
  return sizes[size_t(first)];
}

void throw_pending_error() {
  const int32_t word = std::atomic_ref(*error_word()).exchange(0);
  check_cuda_error_word(word);
}

Launch::Launch(c10::Device device)
    : guard_(device), stream_(current_stream(device)), error_(error_word()) {
  throw_pending_error();
}

void* Launch::workspace(uint64_t bytes) {
  workspace_ =
      at::empty({int64_t(bytes)}, at::TensorOptions(at::kByte).device(guard_.current_device()));
  return workspace_.mutable_data_ptr();
}

DeviceGraph::DeviceGraph(at::TensorList graph, at::IntArrayRef sizes)
    : host(host_graph(graph_number(sizes, 2 + GraphSizes(sizes).types))) {
  view.plan = &host->plan;
  view.device = data<std::byte>(graph[0]);
  if (host->slabs && graph.size() > 1) {
    view.slabs = &*host->slabs;
    view.slabs_device = data<std::byte>(graph[1]);
  }
}

TORCH_LIBRARY_FRAGMENT(lacuna, m) {
  m.def(
      "place_graph(Tensor plan, Tensor like, bool slabs, Tensor? ready=None) -> "
      "(Tensor, Tensor, int)",
      place_graph);
}

}  // namespace lacuna::torch_ops
#endif
