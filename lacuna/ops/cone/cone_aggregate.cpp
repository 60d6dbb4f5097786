// The sums of a cone's layer by blocks of columns (ops/aggregate/column_kernels.h): a block of one
// sample's columns stays in the second-level cache while the edges of its listed rows are walked.
#include <algorithm>

#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/aggregate/column_pass.h"
#include "lacuna/ops/cone/cone.h"

namespace lacuna {
namespace {

constexpr int64_t kSamplesATask = 8;  // of a shared x, whose block is laid out once a task

// The listed rows of a type, sample by sample.
struct RowsBySample {
  std::vector<int32_t> node, place;  // [listed] ascending within a sample; row among the type's
  std::vector<int64_t> ptr;          // [B + 1]

  RowsBySample(const ConeShape& shape, const ConeLists& lists, int64_t t) {
    const int64_t listed = lists.used[t] - shape.first();
    const int32_t* row = lists.row + t * shape.capacity;
    ptr.assign(size_t(shape.batch) + 1, 0);
    for (int64_t e = 0; e < listed; ++e) ++ptr[size_t(row[e] % shape.batch) + 1];
    for (size_t b = 0; b + 1 < ptr.size(); ++b) ptr[b + 1] += ptr[b];
    node.resize(size_t(listed));
    place.resize(size_t(listed));
    std::vector<int64_t> next(ptr.begin(), ptr.end() - 1);
    for (int64_t e = 0; e < listed; ++e) {
      const auto at = size_t(next[size_t(row[e] % shape.batch)]++);
      node[at] = int32_t(row[e] / shape.batch);
      place[at] = int32_t(shape.first() + e);
    }
  }
  int64_t count(int64_t b) const { return ptr[size_t(b) + 1] - ptr[size_t(b)]; }
  RowList of(int64_t b) const {
    return {node.data() + ptr[size_t(b)], place.data() + ptr[size_t(b)]};
  }
};

// What both directions share. Sample B is the wild type.
template <class Real>
class ConeColumns {
 public:
  using Acc = Parameter<Real>;

  ConeColumns(const GraphPlan& plan, const ConeCall<Real>& call)
      : plan_(plan), call_(call), removed_(removed_sets(call.removed)) {
    rows_.reserve(size_t(call.shape.types));
    for (int64_t t = 0; t < call.shape.types; ++t) rows_.emplace_back(call.shape, call.lists, t);
    if (call.values != nullptr) sort_values();
    for (const Columns& columns :
         column_blocks(call.shape.nodes, 1, call.width, sizeof(Acc), /*by_sample=*/true))
      blocks_.push_back({columns.first, columns.count, columns.block_columns});
  }

  struct Block {
    int64_t first, count, columns;  // of H; columns: as they are laid out
  };
  const std::vector<Block>& blocks() const { return blocks_; }

  // The block's columns of a sample's x.
  Columns columns(const Block& block, int64_t sample) const {
    const int64_t side_by_side = call_.shared ? 1 : call_.shape.batch + 1;
    return {side_by_side, call_.width, (call_.shared ? 0 : sample * call_.width) + block.first,
            block.count, block.columns};
  }
  bool is_wild(int64_t sample) const { return sample == call_.shape.batch; }
  int64_t row_count(int64_t t, int64_t sample) const {
    return is_wild(sample) ? call_.shape.nodes : rows_[size_t(t)].count(sample);
  }
  RowList rows(int64_t t, int64_t sample) const {
    return is_wild(sample) ? RowList() : rows_[size_t(t)].of(sample);
  }
  const uint8_t* mask(int64_t t, int64_t sample) const {
    if (call_.masks.stride == 0) return nullptr;
    return call_.masks.records.data() + uint64_t(sample) * call_.masks.stride +
           call_.masks.edge_offsets[size_t(t)];
  }
  std::span<const uint32_t> removed(int64_t sample) const {
    return is_wild(sample) ? std::span<const uint32_t>() : removed_.of(sample);
  }
  CsrView csr(int64_t t) const { return plan_.by_target(uint32_t(t)); }
  // [E] by place in the CSR, or null
  const Acc* values(int64_t t) const {
    return values_.empty() ? nullptr : values_[size_t(t)].data();
  }
  uint32_t index_bytes() const { return plan_.index_bytes(); }

 private:
  // Every type's values in the order of its CSR: sorted once, every block reads them in a row.
  void sort_values() {
    for (int64_t t = 0; t < call_.shape.types; ++t) {
      const Acc* from = call_.values + plan_.first_edge(uint32_t(t));
      const CsrView edges = csr(t);
      std::vector<Acc>& by_place = values_.emplace_back(edges.ptr[call_.shape.nodes]);
      for (size_t k = 0; k < by_place.size(); ++k) by_place[k] = from[edges.edge[k]];
    }
  }

  const GraphPlan& plan_;
  const ConeCall<Real>& call_;
  std::vector<std::vector<Acc>> values_;  // [T], or none
  RemovedSets removed_;
  std::vector<RowsBySample> rows_;  // [T]
  std::vector<Block> blocks_;
};

// Rows of a block that are set aside and put back.
template <class Acc>
class SetAside {
 public:
  SetAside(Acc* block, int64_t columns, std::span<const uint32_t> rows)
      : block_(block), columns_(columns), rows_(rows), kept_(rows.size() * size_t(columns)) {
    for (size_t i = 0; i < rows.size(); ++i)
      std::copy_n(at(i), columns_, kept_.data() + i * size_t(columns_));
  }
  void clear() {
    for (size_t i = 0; i < rows_.size(); ++i) std::fill_n(at(i), columns_, Acc(0));
  }
  void put_back() {
    for (size_t i = 0; i < rows_.size(); ++i)
      std::copy_n(kept_.data() + i * size_t(columns_), columns_, at(i));
  }

 private:
  Acc* at(size_t i) { return block_ + int64_t(rows_[i]) * columns_; }

  Acc* block_;
  int64_t columns_;
  std::span<const uint32_t> rows_;
  std::vector<Acc> kept_;
};

template <class Real>
void sum_sample(const ConeColumns<Real>& cone, const ConeCall<Real>& call,
                const typename ConeColumns<Real>::Block& block, int64_t sample,
                const Parameter<Real>* packed, Real* u) {
  for (int64_t t = 0; t < call.shape.types; ++t) {
    Walk<Real> args = {.columns = cone.columns(block, sample),
                       .csr = cone.csr(t),
                       .index_bytes = cone.index_bytes(),
                       .values = cone.values(t),
                       .mask = cone.mask(t, sample),
                       .block = packed,
                       .zero_row = uint32_t(call.shape.nodes),
                       .self = packed,
                       .self_factor = 1 + call.eps[t],
                       .out = u + t * call.shape.rows() * call.width,
                       .out_pitch = call.width,
                       .out_first = block.first,
                       .list = cone.rows(t, sample)};
    walk(args, 0, cone.row_count(t, sample));
  }
}

}  // namespace

template <class Real>
void cone_aggregate(const GraphPlan& plan, const ConeCall<Real>& call, Real* u) {
  using Acc = Parameter<Real>;
  const ConeColumns<Real> cone(plan, call);
  const int64_t nodes = call.shape.nodes, samples = call.shape.batch + call.shape.wild;
  const int64_t a_task = call.shared ? kSamplesATask : 1;
  const int64_t tasks = (samples + a_task - 1) / a_task;
  parallel_for(uint64_t(tasks) * cone.blocks().size(), call.threads, [&](uint64_t task) {
    const auto& block = cone.blocks()[task % cone.blocks().size()];
    const int64_t begin = int64_t(task / cone.blocks().size()) * a_task;
    const Scratch<Acc> packed(size_t((nodes + 1) * block.columns));
    std::fill_n(packed.get() + nodes * block.columns, block.columns, Acc(0));
    for (int64_t sample = begin; sample < std::min(begin + a_task, samples); ++sample) {
      if (sample == begin)
        pack<Real>({cone.columns(block, sample), call.x, nullptr, packed.get()}, 0, nodes);
      SetAside<Acc> gone(packed.get(), block.columns, cone.removed(sample));
      gone.clear();
      sum_sample(cone, call, block, sample, packed.get(), u);
      gone.put_back();
    }
  });
}

namespace {

// The gradient of one sample's x, added to partial [N, C].
template <class Real>
void scatter_sample(const ConeColumns<Real>& cone, const ConeCall<Real>& call,
                    const typename ConeColumns<Real>::Block& block, int64_t sample,
                    const Real* grad_u, Parameter<Real>* partial) {
  SetAside<Parameter<Real>> gone(partial, block.columns, cone.removed(sample));
  for (int64_t t = 0; t < call.shape.types; ++t)
    scatter<Real>({.columns = cone.columns(block, sample),
                   .csr = cone.csr(t),
                   .index_bytes = cone.index_bytes(),
                   .values = cone.values(t),
                   .mask = cone.mask(t, sample),
                   .self_factor = 1 + call.eps[t],
                   .grad = grad_u + t * call.shape.rows() * call.width,
                   .grad_pitch = call.width,
                   .grad_first = block.first,
                   .list = cone.rows(t, sample),
                   .partial = partial},
                  0, cone.row_count(t, sample));
  gone.put_back();  // a removed gene is read by nobody
}

template <class Real>
double eps_gradient_of(const ConeCall<Real>& call, int64_t t, const Real* grad_u) {
  const ConeShape& shape = call.shape;
  const int64_t pitch = (call.shared ? 1 : shape.batch + 1) * call.width;
  const Real* grad = grad_u + t * shape.rows() * call.width;
  double sum = 0;
  for (int64_t n = 0; n < shape.nodes; ++n)
    sum += dot(grad + n * call.width, call.x + (n + 1) * pitch - call.width, call.width);
  for (int64_t e = 0; e < call.lists.used[t] - shape.nodes; ++e) {
    const int64_t row = call.lists.row[t * shape.capacity + e];
    const int64_t own = call.shared ? 0 : row % shape.batch * call.width;
    sum += dot(grad + (shape.nodes + e) * call.width, call.x + row / shape.batch * pitch + own,
               call.width);
  }
  return sum;
}

}  // namespace

template <class Real>
void cone_aggregate_backward(const GraphPlan& plan, const ConeCall<Real>& call, const Real* grad_u,
                             Real* grad_x, Parameter<Real>* grad_eps) {
  using Acc = Parameter<Real>;
  const ConeColumns<Real> cone(plan, call);
  const int64_t nodes = call.shape.nodes, samples = call.shape.batch + 1;
  const int64_t tasks = call.shared ? 1 : samples;  // a shared x has one gradient
  const size_t blocks = cone.blocks().size();
  parallel_for(grad_x ? uint64_t(tasks) * blocks : 0, call.threads, [&](uint64_t task) {
    const auto& block = cone.blocks()[task % blocks];
    const auto own = int64_t(task / blocks);
    const Scratch<Acc> partial(size_t(nodes * block.columns));
    std::fill_n(partial.get(), nodes * block.columns, Acc(0));
    for (int64_t sample = call.shared ? 0 : own; sample < (call.shared ? samples : own + 1);
         ++sample) {
      throw_if_stopped();
      scatter_sample(cone, call, block, sample, grad_u, partial.get());
    }
    unpack<Real>(cone.columns(block, own), partial.get(), grad_x, 0, nodes);
  });
  parallel_for(grad_eps ? uint64_t(call.shape.types) : 0, call.threads,
               [&](uint64_t t) { grad_eps[t] = Acc(eps_gradient_of(call, int64_t(t), grad_u)); });
}

#define LACUNA_INSTANTIATE(Real)                                                       \
  template void cone_aggregate<Real>(const GraphPlan&, const ConeCall<Real>&, Real*);  \
  template void cone_aggregate_backward<Real>(const GraphPlan&, const ConeCall<Real>&, \
                                              const Real*, Real*, Parameter<Real>*);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
