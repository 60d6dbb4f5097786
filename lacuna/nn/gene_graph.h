// The graph of a screen as tensors on one device, and the removed genes of a batch beside it: what
// models compute with.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/graph/graph_plan.h"
#include "lacuna/graph/hetero_graph.h"
#include "lacuna/ops/bipartite/bipartite.h"
#include "lacuna/screen/plan_cache.h"
#include "lacuna/torch/cone.h"

namespace lacuna {

// What a model sees of a batch, on the model's device.
struct ModelInput {
  at::Tensor removed;  // [K] i32, ptr[B] of them or more
  at::Tensor ptr;      // [B + 1] i32
  // [B, k] i64: the removed genes of each sample, ascending and without repeats; then -1
  at::Tensor sets;
  // [B + 1, stride] u8: mask records (ops/masks/masks.h) of the samples and, behind them, of the
  // wild type, where the rung has masks. gin() then reads them instead of `removed`.
  at::Tensor masks = {};
  // Of several ranks: these samples are number `first` and on of the global batch's `all`. 0: all.
  int64_t first = 0, all = 0;

  int64_t batch() const { return ptr.size(0) - 1; }
};

// Tensors on the host for batches of `batch` samples that remove at most `widest` genes each;
// pinned: so that a device can fetch them while the host goes on.
ModelInput make_input(int64_t batch, int64_t widest, bool pinned = false);
// Writes a batch into tensors made so; `removed` and `ptr` as in aggregate.h.
void fill_input(std::span<const int32_t> removed, std::span<const int32_t> ptr, ModelInput& out);
// Both: tensors of just the size that a batch needs.
ModelInput make_input(std::span<const int32_t> removed, std::span<const int32_t> ptr);
ModelInput to_device(const ModelInput& input, at::Device device);
// The input with the wild type as one more sample, at the end; its masks are those of B samples and
// the wild type, without another one behind.
ModelInput with_wild_type(const ModelInput& input);
// The wild type alone, on the device of `like`; or of an input, with its masks.
ModelInput wild_type(const at::Tensor& like);
ModelInput wild_type(const ModelInput& input);
// keep [N, B] bool.
at::Tensor kept_genes(const ModelInput& input, int64_t genes);

// Edge e goes from sources[e] to targets[e].
struct Ends {
  std::vector<uint32_t> sources, targets;  // [E]
  EdgeList list() const { return {sources, targets}; }
};

// How much an edge counts.
//   none         1
//   values       its value in the screen; 1 in types without values
//   normalised   value / sqrt(d(source) d(target)) by the wild type's weighted degrees in its type:
//                d(source) adds up the sizes of the values of all edges that leave the source,
//                d(target) those that arrive. The same for all samples, so that rows which no
//                removed gene reaches stay the wild type's.
enum class EdgeWeights { none, values, normalised };
EdgeWeights edge_weights_from_name(const std::string& name);  // throws Error, listing the three

// The gene-gene edge types, alphabetically, and metabolism where the graph has it, laid out for the
// operators. Cheap to copy.
class GeneGraph {
 public:
  // plans: of this graph, for a GPU, where they are there already; null: made here, where the
  // device wants them. is_shared: what the host holds of the plan lies there once, however many
  // processes ask for the same (ladder/host_copy.h); so do plans of networks made from it. Throws
  // Error for a graph without gene-gene edges.
  GeneGraph(const HeteroGraph& graph, at::Device device, const CachedPlan* plans = nullptr,
            bool is_shared = false);

  at::Device device() const { return buffers_[0].device(); }
  int64_t genes() const { return genes_; }
  int64_t type_count() const { return int64_t(types_.size()); }
  const std::vector<std::string>& types() const { return types_; }
  int64_t edge_count() const { return int64_t(plan_on_host().edge_count()); }  // of all types
  // [N, d] f32, given node features of these names side by side; no name: all of them. undefined
  // where there are none. A number that is missing (NaN) is the mean of its column. Throws Error
  // for a name that is not there.
  at::Tensor features(const std::vector<std::string>& names = {}) const;
  // [E] f32, all types one after another in the order of their edges; undefined for `none`. Throws
  // Error where there are no values, several that could be meant, or one that is not finite.
  at::Tensor weights(EdgeWeights kind) const;

  // From now on with_masks() of this graph and of all its copies makes them (rung `device`). The
  // copies too, because a model holds one and only then can say whether it reads masks.
  // graph: the constructor's.
  void make_masks(const HeteroGraph& graph);
  void make_no_masks();  // any more
  // The input with its masks where this graph makes them; else as it is. To be called before gin(),
  // once a batch: gin() throws Error where it was forgotten.
  ModelInput with_masks(const ModelInput& input) const;
  // a + (1 + eps) x for every edge type, a = sum over kept in-neighbours.
  // x [N, B, H], eps [T] -> [T, N, B, H]. Here and below, weights: as weights() gives them, or
  // undefined.
  at::Tensor gin(const at::Tensor& x, const ModelInput& input, const at::Tensor& eps,
                 const at::Tensor& weights = {}) const;
  // The same where all samples share x [N, H]; from the removed genes on every rung.
  at::Tensor gin_shared(const at::Tensor& x, const ModelInput& input, const at::Tensor& eps,
                        const at::Tensor& weights = {}) const;
  // The sums alone, of the wild type: x [N, H] -> [T, N, H]
  at::Tensor wild_type_sums(const at::Tensor& x, const at::Tensor& weights = {}) const;
  // Which rows of the first layers differ from the wild type's. wild: whether its rows stand in
  // front (on a GPU always). either: whether lists of all types together are asked for (on the CPU
  // always).
  std::vector<Cone> cones(const ModelInput& input, size_t layers, bool wild, bool either) const;
  // The shares of rows that differ in each of so many layers, where samples remove `widest` genes:
  // of a type, on average, and of all types together. An estimate, from samples drawn at random.
  struct ConeShare {
    double of_type, either;
  };
  const std::vector<ConeShare>& cone_shares(int64_t widest, size_t layers) const;
  // gin_shared() on the rows of a cone, x [N, H]; or gin(), x [N, B + 1, H] with the wild type
  // last, and masks where with_masks() gives them. eps [T] -> [T, rows, H]. weights: on the CPU.
  at::Tensor gin_cone(const Cone& cone, const at::Tensor& x, const ModelInput& input,
                      const at::Tensor& eps, const at::Tensor& weights = {}) const;
  // The mean state of each removed gene's kept neighbours in its sample: of the genes from which an
  // edge of any type comes, each counted once. x [N, B or more, H] -> [B, k, H], a row a place of
  // input.sets; 0 where there is no such neighbour. How many there are decides about sizes: not for
  // a recorded step.
  at::Tensor neighbour_states(const at::Tensor& x, const ModelInput& input) const;
  // Mean over kept in-neighbours. x [N, B, H] -> [T, N, B, H]
  at::Tensor mean(const at::Tensor& x, const ModelInput& input) const;
  // The networks between these genes alone (ascending), numbered by their places among them.
  // weights [E] of this graph, or undefined; those of the edges that are left come along. It
  // sums over the wild type's edges and is for nothing else: it has no features, masks and
  // metabolism.
  std::pair<GeneGraph, at::Tensor> between(const std::vector<int64_t>& genes,
                                           const at::Tensor& weights = {}) const;
  // The same networks, and behind them for each the network of its `count` most similar genes
  // (similar_genes.h), of which `silent` ones are heard by nobody. weights [E] of this graph; with
  // those of the new edges behind. For sums over the wild type's edges and nothing else, too.
  std::pair<GeneGraph, at::Tensor> with_similar(int64_t count, const std::vector<int64_t>& silent,
                                                const at::Tensor& weights) const;
  // The distinct edges of a type: [2, E] i64 on the device, sources then targets; made on call.
  at::Tensor edges(int64_t type) const;

  // ---- metabolism
  // One type of gene-reaction edges, and one of reaction-metabolite edges with the value
  // "coefficient".
  bool has_metabolism() const { return bipartite_sizes_.size() > 0; }
  // What is missing or too much where there is none: "the screen has no ..."
  const std::string& why_no_metabolism() const { return why_no_metabolism_; }
  int64_t reactions() const { return bipartite_sizes_.at(1); }
  // x [source nodes, B, H] -> [target nodes, B, H]; see ops/bipartite/bipartite.h
  at::Tensor bipartite(BipartiteStep step, const at::Tensor& x, const ModelInput& input) const;
  // [R, 1, 1] f32: 1 for a reaction without genes
  const at::Tensor& without_genes() const { return without_genes_; }

 private:
  GraphPlan plan_on_host() const;
  // Other networks between so many genes, on the same device, and nothing else.
  GeneGraph with_networks(int64_t genes, const std::vector<std::string>& types,
                          const std::vector<Ends>& networks) const;
  ConeRoom most_of_cone(int64_t widest) const;
  void check_masks(const ModelInput& input) const;
  void keep_plan(const GraphPlan& plan);                   // on the host
  void place(at::Device device, const CachedPlan* plans);  // the plan
  void add_values(const HeteroGraph& graph);
  void add_mask_layout(const HeteroGraph& graph);
  void add_metabolism(const HeteroGraph& graph, at::Device device);

  int64_t genes_;
  bool is_shared_ = false;
  std::vector<std::string> types_;
  std::vector<std::pair<std::string, at::Tensor>> features_;  // name, [N, d]
  at::Tensor values_;                // [E] of the edges on the host, 1 in types without
  std::string why_no_values_;        // empty: there are some
  std::vector<at::Tensor> buffers_;  // what the operators take as `graph`
  std::vector<int64_t> sizes_;
  std::vector<int64_t> mask_offsets_;  // [T] of each type in a record, in bytes
  std::vector<int64_t> mask_counts_;   // elements of each section of a record
  // ptr and place of a MaskTable, shared by the copies; empty: makes no masks
  std::shared_ptr<std::vector<at::Tensor>> mask_table_;
  at::Tensor plan_;  // the bytes of the GraphPlan, on the host
  // By how many genes a sample removes at most; shared by the copies.
  struct Cones {
    std::map<int64_t, ConeRoom> room;  // what a sample changes at most in the first layer
    std::map<std::pair<int64_t, size_t>, std::vector<ConeShare>> shares;  // and by layers
  };
  std::shared_ptr<Cones> cones_;
  // Sources of each gene's in-edges of any type, without itself and repeats: [N + 1] and [M] i64;
  // made by the first who asks, shared by the copies.
  std::shared_ptr<std::pair<at::Tensor, at::Tensor>> neighbours_;
  at::Tensor bipartite_plan_, coefficients_, without_genes_;
  std::vector<int64_t> bipartite_sizes_;  // empty: no metabolism
  std::string why_no_metabolism_;
};

}  // namespace lacuna
