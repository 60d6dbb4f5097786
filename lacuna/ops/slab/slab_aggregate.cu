#include "lacuna/ops/slab/slab_aggregate.cuh"

#include <algorithm>
#include <type_traits>

#include "lacuna/ops/slab/slab_block.cuh"

namespace lacuna::cuda {
namespace {

using namespace slab;

struct Device {
  int multiprocessors, shared_bytes;
};
Device device() {
  int id = 0;
  Device d = {};
  check(cudaGetDevice(&id), "current device");
  check(cudaDeviceGetAttribute(&d.multiprocessors, cudaDevAttrMultiProcessorCount, id), "device");
  check(cudaDeviceGetAttribute(&d.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, id),
        "device");
  return d;
}

// What loading a slab costs, in the unit of slab::Layout::cost. With one panel it includes a
// helper's move to another strip.
double slab_cost(const Pass& pass) { return (pass.panel_count > 1 ? 2.0 : 4.0) * pass.slab_rows; }
// A helper's move to another strip with several panels, in slab loads: nothing hides it.
constexpr double kSwitch = 1.2;

double panel_cost(const SlabPlan& plan, const Pass& pass, const Layout& layout, uint32_t panel) {
  const uint32_t* first = plan.at<uint32_t>(layout.first_task) + panel;
  const uint32_t* cost = plan.at<uint32_t>(layout.cost);
  double sum = slab_cost(pass);
  for (uint32_t k = first[0]; k < first[1]; ++k) sum += cost[k];
  return sum;
}

// Which tasks of a strip its helpers do, so that all blocks end together: those from `cut` to `end`
// of one panel.
struct Cut {
  int panel, cut, end;
};
Cut cut_tasks(const SlabPlan& plan, const Pass& pass, const Layout& layout, int rest, int helpers) {
  const uint32_t* first = plan.at<uint32_t>(layout.first_task) + pass.heaviest;
  const Cut none = {int(pass.heaviest), int(first[1]), int(first[1])};
  const bool multi = pass.panel_count > 1;
  if (helpers == 0 || rest == 0 || (multi && pass.panel_count < 3)) return none;
  const double slab = slab_cost(pass),
               each = double(rest) / helpers;  // strips that a helper serves
  double all = 0;
  for (uint32_t k = 0; k < pass.panel_count; ++k) all += panel_cost(plan, pass, layout, k);
  // Helpers of a pass of several panels must be done when the owners come to the last panel.
  const double early = multi ? panel_cost(plan, pass, layout, pass.panel_count - 1) : 0;
  double want =
      multi ? (all - each * slab * kSwitch - early) / (each + 1) : (all - slab) / (each + 1) - slab;
  const uint32_t* cost = plan.at<uint32_t>(layout.cost);
  uint32_t cut = first[1];
  while (cut > first[0] && want - cost[cut - 1] / 2 > 0) want -= cost[--cut];
  return {int(pass.heaviest), int(cut), int(first[1])};
}

int64_t output_rows(const SlabPlan& plan, const Pass& pass) {
  return int64_t(pass.output_types) * plan.node_count();
}
// Helpers need room for the sums of every strip; with too many rows there are none.
constexpr int64_t kMostHelpBytes = int64_t(1) << 28;
int64_t help_bytes(const SlabPlan& plan, const Pass& pass, int strip_columns, int blocks) {
  const int64_t bytes = output_rows(plan, pass) * strip_columns * 4 * blocks;
  return pass.panel_count < 3 || bytes > kMostHelpBytes ? 0 : bytes;
}

// Scratch memory: sums, what helpers add, the helpers' counters, edge values.
struct ScratchPlaces {
  uint64_t help, done, values, bytes;
};
ScratchPlaces scratch_places(const SlabPlan& plan, const Pass& pass, int strip_columns,
                             bool has_values) {
  ScratchPlaces p = {};
  const int blocks = device().multiprocessors;
  if (pass.panel_count > 1) {
    p.help = uint64_t(output_rows(plan, pass)) * strip_columns * 4 * blocks;
    p.done = p.help + help_bytes(plan, pass, strip_columns, blocks);
    p.values = aligned(p.done + sizeof(int) * blocks);
  }
  p.bytes = p.values + (has_values ? uint64_t(pass.rows.unit_count) * kRowUnitSlots * 4 : 0);
  return p;
}

}  // namespace

template <class Real>
bool slabs_fit(const SlabPlan& plan, const Pass& pass, int64_t columns, int64_t width) {
  const Device d = device();
  if (width % kHalfColumns<Real> != 0 || columns == 0 || columns > INT32_MAX / 2) return false;
  const uint32_t bytes = places(pass.slab_rows, plan.node_count(), int(plan.type_count())).bytes;
  if (int(bytes) > d.shared_bytes) return false;
  // With several panels a block must do a whole strip: too few strips leave multiprocessors idle.
  return pass.panel_count == 1 ||
         divide_up(columns, kStripColumns<Real>) * 5 >= d.multiprocessors * 3;
}
template bool slabs_fit<float>(const SlabPlan&, const Pass&, int64_t, int64_t);
template bool slabs_fit<BFloat16>(const SlabPlan&, const Pass&, int64_t, int64_t);

uint64_t slab_scratch_bytes(const SlabPlan& plan, const Pass& pass, int strip_columns,
                            bool has_values) {
  return scratch_places(plan, pass, strip_columns, has_values).bytes;
}

template <class Real>
void aggregate_slabs(const CudaGraph& graph, CudaPass direction, CudaPath path,
                     const GatherArgs<Real>& gather, const CudaRemoved& removed,
                     const CudaLaunch& launch) {
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  const bool forward = direction == CudaPass::forward;
  const SlabPlan& plan = *graph.slabs;
  const Pass& pass = forward ? plan.forward() : plan.backward();
  const Layout& layout = path == CudaPath::slab_tensor ? pass.chunks : pass.rows;
  auto moved = [&](auto* unused, uint64_t offset) {
    return reinterpret_cast<decltype(unused)>(graph.slabs_device + offset);
  };
  constexpr const uint16_t* u16 = nullptr;
  constexpr const uint32_t* u32 = nullptr;
  SlabArgs<Real> a = {};
  a.panel_type = moved(u32, pass.panel_type);
  a.node_at = moved(u16, pass.node_at);
  a.place = moved(u16, pass.place);
  a.panel_count = pass.panel_count;
  a.slab_rows = pass.slab_rows;
  a.forward = forward;
  a.units = graph.slabs_device + layout.units;
  a.tasks = moved(static_cast<const Task*>(nullptr), layout.tasks);
  a.lines = moved(u32, layout.lines);
  a.own = moved(u16, layout.own);
  a.first_task = moved(u32, layout.first_task);
  a.task_of = moved(u32, layout.task_of);
  a.heads = moved(u32, layout.heads);
  a.task_count = layout.task_count;
  a.csr = gather.csr;
  a.nodes = gather.nodes;
  a.types = gather.types;
  a.columns = int(gather.columns);
  a.width = gather.width;
  a.source = gather.source;
  a.source_stride = gather.source_stride;
  a.removed = removed;
  a.values = gather.values;
  a.eps = gather.eps;
  a.row_scale = gather.row_scale;
  a.out = gather.out;
  a.error = launch.error;
  a.strips = int(divide_up(a.columns, kStripColumns<Real>));
  a.zero = 0;
  const int blocks = device().multiprocessors, rest = a.strips % blocks;
  const ScratchPlaces at = scratch_places(plan, pass, kStripColumns<Real>, a.values != nullptr);
  const bool may_help = rest > 0 && (pass.panel_count == 1 || at.done > at.help);
  const Cut cut = cut_tasks(plan, pass, layout, rest, may_help ? blocks - rest : 0);
  a.shared_panel = cut.panel;
  a.cut = cut.cut;
  a.shared_end = cut.end;
  auto* const memory = static_cast<std::byte*>(launch.workspace);
  if (pass.panel_count > 1) {
    a.sums = reinterpret_cast<float*>(memory);
    a.done = reinterpret_cast<int*>(memory + at.done);
    check(cudaMemsetAsync(a.done, 0, sizeof(int) * blocks, stream), "clear the helpers' counters");
  }
  if (a.values != nullptr) {
    auto* const values = reinterpret_cast<float*>(memory + at.values);
    order_values(a.values, moved(u32, layout.edges), uint64_t(layout.unit_count) * kRowUnitSlots,
                 values, stream);
    a.slot_values = values;
  }
  if constexpr (std::is_same_v<Real, BFloat16>) {
    if (path == CudaPath::slab_tensor) return launch_chunks(a, blocks, stream);
  }
  launch_rows<Real>(a, blocks, stream);
}
template void aggregate_slabs(const CudaGraph&, CudaPass, CudaPath, const GatherArgs<float>&,
                              const CudaRemoved&, const CudaLaunch&);
template void aggregate_slabs(const CudaGraph&, CudaPass, CudaPath, const GatherArgs<BFloat16>&,
                              const CudaRemoved&, const CudaLaunch&);

}  // namespace lacuna::cuda
