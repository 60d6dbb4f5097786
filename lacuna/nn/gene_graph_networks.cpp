// The networks that a model makes from those of its graph: between some genes, and of similar ones.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "lacuna/graph/similar_genes.h"
#include "lacuna/nn/gene_graph.h"

namespace lacuna {

GeneGraph GeneGraph::with_networks(int64_t genes, const std::vector<std::string>& types,
                                   const std::vector<Ends>& networks) const {
  GeneGraph other = *this;
  other.genes_ = genes;
  other.types_ = types;
  other.sizes_ = {genes, int64_t(types.size())};
  std::vector<EdgeList> lists;
  for (const Ends& network : networks) {
    lists.push_back(network.list());
    other.sizes_.push_back(int64_t(network.sources.size()));
  }
  other.keep_plan(GraphPlan::make(uint32_t(genes), lists));
  other.place(device(), nullptr);
  other.features_.clear();
  other.values_ = at::Tensor();
  other.mask_table_ = std::make_shared<std::vector<at::Tensor>>();
  other.cones_ = std::make_shared<Cones>();
  other.neighbours_ = std::make_shared<std::pair<at::Tensor, at::Tensor>>();
  other.bipartite_sizes_.clear();
  other.why_no_values_ = other.why_no_metabolism_ = "these are networks that a model made";
  return other;
}

std::pair<GeneGraph, at::Tensor> GeneGraph::between(const std::vector<int64_t>& genes,
                                                    const at::Tensor& weights) const {
  const GraphPlan plan = plan_on_host();
  std::vector<int64_t> place(size_t(genes_), -1);
  for (size_t i = 0; i < genes.size(); ++i) place[size_t(genes[i])] = int64_t(i);
  std::vector<Ends> networks(plan.type_count());
  std::vector<int64_t> kept;  // numbers of the edges that are left, all types in one row
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    const CsrView csr = plan.by_target(t);
    for (size_t target = 0; target < genes.size(); ++target)
      for (uint32_t k = csr.ptr[genes[target]]; k < csr.ptr[genes[target] + 1]; ++k) {
        const int64_t source = place[plan.neighbour(csr, k)];
        if (source < 0) continue;
        networks[t].sources.push_back(uint32_t(source));
        networks[t].targets.push_back(uint32_t(target));
        kept.push_back(int64_t(plan.first_edge(t) + csr.edge[k]));
      }
  }
  const at::Tensor numbers = at::tensor(kept, at::kLong).to(device());
  return {with_networks(int64_t(genes.size()), types_, networks),
          weights.defined() ? weights.index_select(0, numbers) : at::Tensor()};
}

std::pair<GeneGraph, at::Tensor> GeneGraph::with_similar(int64_t count,
                                                         const std::vector<int64_t>& silent,
                                                         const at::Tensor& weights) const {
  const GraphPlan plan = plan_on_host();
  std::vector<bool> is_silent(size_t(genes_), false);
  for (const int64_t gene : silent) is_silent[size_t(gene)] = true;
  const at::Tensor on_host = weights.to(at::kCPU, at::kFloat).contiguous();
  const float* const all = on_host.const_data_ptr<float>();
  std::vector<std::string> types = types_;
  std::vector<Ends> networks(plan.type_count());
  std::vector<at::Tensor> values = {on_host};
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    Ends& own = networks[t];
    const CsrView csr = plan.by_target(t);
    own.sources.resize(plan.edge_count(t));
    own.targets.resize(plan.edge_count(t));
    for (uint32_t v = 0; v < plan.node_count(); ++v)
      for (uint32_t k = csr.ptr[v]; k < csr.ptr[v + 1]; ++k) {
        own.sources[csr.edge[k]] = plan.neighbour(csr, k);
        own.targets[csr.edge[k]] = v;
      }
    const std::span of_type(all + plan.first_edge(t), own.sources.size());
    const WeightedEdges edges = {plan.node_count(), own.sources, own.targets, of_type};
    SimilarGenes similar = similar_genes(edges, uint32_t(count), is_silent, at::get_num_threads());
    values.push_back(at::tensor(similar.weights, at::kFloat));
    networks.push_back({std::move(similar.sources), std::move(similar.targets)});
    types.push_back(types_[t] + ", similar");
  }
  return {with_networks(genes_, types, networks), at::cat(values).to(device())};
}

}  // namespace lacuna
