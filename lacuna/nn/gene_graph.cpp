#include "lacuna/nn/gene_graph.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/random.h"
#include "lacuna/core/scope.h"
#include "lacuna/graph/graph_plan.h"
#include "lacuna/ladder/host_copy.h"
#include "lacuna/ops/masks/masks.h"
#include "lacuna/torch/find_operator.h"

namespace lacuna {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using AggregateSignature = Tensor(at::TensorList, at::IntArrayRef, const Tensor&, const Tensor&,
                                  const Tensor&, std::string_view, bool, const OptionalTensor&,
                                  const OptionalTensor&);
using MaskedSignature = Tensor(at::TensorList, at::IntArrayRef, const Tensor&, const Tensor&,
                               at::IntArrayRef, std::string_view, bool, const OptionalTensor&,
                               const OptionalTensor&);
using MasksSignature = Tensor(at::TensorList, at::IntArrayRef, const Tensor&, const Tensor&);
using BipartiteSignature = Tensor(const Tensor&, const Tensor&, at::IntArrayRef, std::string_view,
                                  const Tensor&, const Tensor&, const Tensor&);
using PlaceSignature = std::tuple<Tensor, Tensor, int64_t>(const Tensor&, const Tensor&, bool,
                                                           const OptionalTensor&);

Tensor bytes_tensor(std::span<const std::byte> bytes) {
  const Tensor tensor = at::empty({int64_t(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, static_cast<std::byte*>(tensor.mutable_data_ptr()));
  return tensor;
}

Ends ends_of(const EdgeType& type) { return {type.sources(), type.targets()}; }

// Each [N, d] on the device; what is missing is the mean of its column, 0 where all of it is.
std::vector<std::pair<std::string, Tensor>> features_of(const NodeType& genes, at::Device device) {
  std::vector<std::pair<std::string, Tensor>> features;
  for (const NodeFeature& feature : genes.features) {
    const auto values = feature.values.as<float>();
    const int64_t width = int64_t(values.size() / genes.size());
    const Tensor given =
        at::from_blob(const_cast<float*>(values.data()), {int64_t(genes.size()), width}).clone();
    const Tensor means = at::nan_to_num(at::nanmean(given, {0}, /*keepdim=*/true), 0.0);
    features.emplace_back(feature.name, at::where(given.isnan(), means, given).to(device));
  }
  return features;
}

// The value of a type's edges that models read: its only one, or the one called `weight`.
const EdgeValue* find_weight(const EdgeType& type, std::string& why) {
  for (const EdgeValue& value : type.values)
    if (type.values.size() == 1 || value.name == "weight") return &value;
  if (!type.values.empty())
    why = fmt::format("edges {} of the screen have {} values and none is called 'weight'",
                      type.key(), type.values.size());
  return nullptr;
}

// The only edge type between these node types; else null, and why.
const EdgeType* find_edges(const HeteroGraph& graph, std::string_view source,
                           std::string_view target, std::string& why) {
  std::vector<const EdgeType*> found;
  for (const EdgeType& type : graph.edge_types())
    if (type.source == source && type.target == target) found.push_back(&type);
  if (found.size() == 1) return found[0];
  why = found.empty() ? fmt::format("the screen has no {}-{} edges", source, target)
                      : fmt::format(
                            "the screen has {} types of {}-{} edges ({} and {}), and models "
                            "read one; join them into one",
                            found.size(), source, target, found[0]->key(), found[1]->key());
  return nullptr;
}

const EdgeValue* find_coefficients(const EdgeType& stoichiometry, std::string& why) {
  for (const EdgeValue& value : stoichiometry.values)
    if (value.name == "coefficient") return &value;
  why = fmt::format("edges {} of the screen have no value 'coefficient'", stoichiometry.key());
  return nullptr;
}

Tensor int_tensor(const std::vector<uint32_t>& numbers, at::Device device) {
  return at::from_blob(const_cast<uint32_t*>(numbers.data()), {int64_t(numbers.size())}, at::kInt)
      .to(device, at::kInt, false, /*copy=*/true);
}

// Weights as an operator takes them: f64 beside an f64 x, else f32.
OptionalTensor values_beside(const Tensor& x, const Tensor& weights) {
  if (!weights.defined()) return std::nullopt;
  return weights.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// ---- what samples change
// The most genes that removing so many others reaches, by any type of edge.
int64_t most_targets(const GraphPlan& plan, int64_t widest) {
  const auto nodes = int64_t(plan.node_count());
  std::vector<int64_t> counts(size_t(nodes), 0), seen(size_t(nodes), -1);
  for (int64_t n = 0; n < nodes; ++n)
    for (uint32_t t = 0; t < plan.type_count(); ++t) {
      const CsrView csr = plan.by_source(t);
      for (uint32_t e = csr.ptr[n]; e < csr.ptr[n + 1]; ++e) {
        int64_t& last = seen[plan.neighbour(csr, e)];
        counts[size_t(n)] += last != n;
        last = n;
      }
    }
  const auto some = counts.begin() + std::min(widest, nodes);
  std::partial_sort(counts.begin(), some, counts.end(), std::greater<>());
  return std::min(std::accumulate(counts.begin(), some, int64_t(0)), nodes);
}

// Samples that remove so many genes each, the same in every run.
struct RemovedAtRandom {
  std::vector<int32_t> index, ptr = {0};

  RemovedAtRandom(int64_t genes, int64_t widest) {
    constexpr int kSamples = 64;
    Random random(1);
    for (int b = 0; b < kSamples; ++b) {
      for (int64_t i = 0; i < std::min(widest, genes); ++i)
        index.push_back(int32_t(random.below(uint64_t(genes))));
      ptr.push_back(int32_t(index.size()));
    }
  }
  RemovedView view() const { return {index, ptr}; }
};

double share_of_rows(const ConeMarks& marks) {
  const std::vector<int64_t> counts = marks.counts();
  return double(std::accumulate(counts.begin(), counts.end(), int64_t(0))) /
         double(std::max<int64_t>(marks.types * marks.nodes * marks.batch, 1));
}

}  // namespace

// ---- the input of a model
ModelInput make_input(int64_t batch, int64_t widest, bool pinned) {
  const int64_t width = std::max<int64_t>(widest, 1);
  const auto ints = at::TensorOptions(at::kInt).pinned_memory(pinned);
  return {at::zeros({batch * width}, ints), at::zeros({batch + 1}, ints),
          at::full({batch, width}, -1, ints.dtype(at::kLong))};
}

void fill_input(std::span<const int32_t> removed, std::span<const int32_t> ptr, ModelInput& out) {
  LACUNA_ASSERT(int64_t(ptr.size()) == out.ptr.numel());
  LACUNA_ASSERT(int64_t(removed.size()) <= out.removed.numel());
  std::ranges::copy(removed, out.removed.mutable_data_ptr<int32_t>());
  std::ranges::copy(ptr, out.ptr.mutable_data_ptr<int32_t>());
  const size_t width = size_t(out.sets.size(1));
  int64_t* row = out.sets.mutable_data_ptr<int64_t>();
  std::set<int64_t> set;
  for (size_t b = 0; b + 1 < ptr.size(); ++b, row += width) {
    const auto genes = removed.subspan(size_t(ptr[b]), size_t(ptr[b + 1] - ptr[b]));
    set.clear();
    set.insert(genes.begin(), genes.end());
    LACUNA_ASSERT(set.size() <= width);
    std::fill(std::copy(set.begin(), set.end(), row), row + width, -1);
  }
}

ModelInput make_input(std::span<const int32_t> removed, std::span<const int32_t> ptr) {
  int32_t widest = 0;
  for (size_t b = 0; b + 1 < ptr.size(); ++b) widest = std::max(widest, ptr[b + 1] - ptr[b]);
  ModelInput input = make_input(int64_t(ptr.size()) - 1, widest);
  fill_input(removed, ptr, input);
  return input;
}

ModelInput to_device(const ModelInput& input, at::Device device) {
  const auto move = [&](const Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  return {move(input.removed), move(input.ptr), move(input.sets), move(input.masks)};
}

ModelInput with_wild_type(const ModelInput& input) {
  const Tensor last = input.ptr.narrow(0, input.batch(), 1);
  const Tensor nobody = at::full({1, input.sets.size(1)}, -1, input.sets.options());
  return {input.removed, at::cat({input.ptr, last}), at::cat({input.sets, nobody}), input.masks};
}

ModelInput wild_type(const ModelInput& input) {
  ModelInput nobody = wild_type(input.ptr);
  if (input.masks.defined()) nobody.masks = input.masks.narrow(0, input.batch(), 1);
  return nobody;
}

ModelInput wild_type(const Tensor& like) {
  const auto ints = at::TensorOptions(at::kInt).device(like.device());
  return {at::zeros({1}, ints), at::zeros({2}, ints), at::full({1, 1}, -1, ints.dtype(at::kLong))};
}

Tensor kept_genes(const ModelInput& input, int64_t genes) {
  // Row `genes` takes what stands for "none" and is cut off again.
  const Tensor& sets = input.sets;
  const Tensor keep = at::ones({genes + 1, sets.size(0)}, sets.options().dtype(at::kBool));
  const Tensor index = at::where(sets.ge(0), sets, genes).t();  // [k, B]
  return keep.scatter(0, index, false).narrow(0, 0, genes);
}

// ---- the graph
EdgeWeights edge_weights_from_name(const std::string& name) {
  if (name == "none") return EdgeWeights::none;
  if (name == "values") return EdgeWeights::values;
  if (name == "normalised") return EdgeWeights::normalised;
  throw Error("unknown weights '{}'; there are none, values and normalised", name);
}

GeneGraph::GeneGraph(const HeteroGraph& graph, at::Device device, const CachedPlan* plans,
                     bool is_shared)
    : genes_(graph.genes().size()),
      is_shared_(is_shared),
      features_(features_of(graph.genes(), device)),
      mask_table_(std::make_shared<std::vector<Tensor>>()),
      cones_(std::make_shared<Cones>()),
      neighbours_(std::make_shared<std::pair<Tensor, Tensor>>()) {
  const auto types = graph.gene_edges();
  if (types.empty())
    throw Error("the screen has no gene-gene edges; a graph model needs at least one network");
  sizes_ = {genes_, int64_t(types.size())};
  for (const EdgeType* type : types) {
    types_.push_back(type->name);
    sizes_.push_back(int64_t(type->size()));
  }
  keep_plan(plans ? plans->graph : plan_gene_edges(graph));
  place(device, plans);
  add_values(graph);
  add_mask_layout(graph);
  add_metabolism(graph, device);
}

void GeneGraph::keep_plan(const GraphPlan& plan) {
  const std::span<const std::byte> bytes = plan.bytes();
  if (!is_shared_) {
    plan_ = bytes_tensor(bytes);
    return;
  }
  const HostCopyPlan asked = {hash64(bytes), {0, bytes.size()}, "the plan of a graph"};
  const auto copy = HostCopy::share(
      asked, [&](uint64_t, std::span<std::byte> out) { std::ranges::copy(bytes, out.begin()); });
  void* const data = const_cast<std::byte*>(copy->bytes().data());  // which operators only read
  plan_ = at::from_blob(
      data, {int64_t(bytes.size())}, [copy](void*) {}, at::kByte);
}

void GeneGraph::place(at::Device device, const CachedPlan* plans) {
  if (device.is_cpu()) {
    buffers_ = {plan_};
    return;
  }
  static const auto place = find_operator<PlaceSignature>("lacuna::place_graph");
  const auto ready = plans ? OptionalTensor(bytes_tensor(plans->slabs.bytes())) : std::nullopt;
  const Tensor like = at::empty({0}, at::TensorOptions(at::kByte).device(device));
  const auto [on_device, its_slabs, number] = place.call(plan_, like, true, ready);
  buffers_ = {on_device, its_slabs};
  sizes_.push_back(number);
}

void GeneGraph::add_values(const HeteroGraph& graph) {
  std::vector<Tensor> parts;
  why_no_values_ = "no gene network of the screen has values";
  for (const EdgeType* type : graph.gene_edges()) {
    std::string why;
    if (const EdgeValue* const found = find_weight(*type, why)) {
      const auto values = found->values.as<float>();
      parts.push_back(
          at::from_blob(const_cast<float*>(values.data()), {int64_t(values.size())}).clone());
      why_no_values_.clear();
    } else if (why.empty()) {
      parts.push_back(at::ones({int64_t(type->size())}));
    } else {
      why_no_values_ = why;
      return;
    }
  }
  values_ = at::cat(parts);
}

Tensor GeneGraph::features(const std::vector<std::string>& names) const {
  std::vector<Tensor> parts;
  for (const auto& [name, values] : features_)
    if (names.empty()) parts.push_back(values);
  for (const std::string& asked : names) {
    const auto found = std::ranges::find(features_, asked, &std::pair<std::string, Tensor>::first);
    if (found == features_.end()) {
      std::vector<std::string> there;
      for (const auto& [name, values] : features_) there.push_back(name);
      throw Error("model.feature_names has '{}', but the genes of the screen have the features: {}",
                  asked, there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
    }
    parts.push_back(found->second);
  }
  return parts.empty() ? Tensor() : at::cat(parts, 1);
}

Tensor GeneGraph::weights(EdgeWeights kind) const {
  if (kind == EdgeWeights::none) return {};
  const char* const word = kind == EdgeWeights::values ? "values" : "normalised";
  if (!values_.defined() || (kind == EdgeWeights::values && !why_no_values_.empty()))
    throw Error("model.weights is '{}', but {}; set it to none, or mend the screen", word,
                why_no_values_);
  const GraphPlan plan = plan_on_host();
  const Tensor result = values_.clone();
  float* const all = result.mutable_data_ptr<float>();
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    float* const value = all + plan.first_edge(t);
    const CsrView csr = plan.by_target(t);
    std::vector<double> leaving(size_t(genes_), 0), arriving(size_t(genes_), 0);
    const auto for_edges = [&](const auto& visit) {
      for (uint32_t v = 0; v < plan.node_count(); ++v)
        for (uint32_t k = csr.ptr[v]; k < csr.ptr[v + 1]; ++k)
          visit(plan.neighbour(csr, k), v, value[csr.edge[k]]);
    };
    for_edges([&](uint32_t u, uint32_t v, float w) {
      if (!std::isfinite(w))
        throw Error(
            "model.weights is '{}', but an edge of network '{}' has the value {}; set it to "
            "none, or mend the screen",
            word, types_[t], w);
      leaving[u] += std::abs(double(w));
      arriving[v] += std::abs(double(w));
    });
    if (kind == EdgeWeights::values) continue;
    for_edges([&](uint32_t u, uint32_t v, float& w) {
      if (w != 0) w = float(double(w) / std::sqrt(leaving[u] * arriving[v]));
    });
  }
  return result.to(device());
}

void GeneGraph::add_mask_layout(const HeteroGraph& graph) {
  for (const NodeType& nodes : graph.node_types()) mask_counts_.push_back(nodes.size());
  for (const EdgeType& edges : graph.edge_types()) mask_counts_.push_back(int64_t(edges.size()));
  const MaskLayout layout(mask_counts_, MaskForm::u8);
  for (const EdgeType* type : graph.gene_edges()) {
    const size_t section = graph.node_types().size() + size_t(type - graph.edge_types().data());
    mask_offsets_.push_back(int64_t(layout.sections()[section].offset));
  }
}

void GeneGraph::make_no_masks() { mask_table_->clear(); }

void GeneGraph::make_masks(const HeteroGraph& graph) {
  const MaskTable table(RemovalRules(graph), MaskLayout(mask_counts_, MaskForm::u8));
  *mask_table_ = {int_tensor(table.ptr, device()), int_tensor(table.place, device())};
}

void GeneGraph::add_metabolism(const HeteroGraph& graph, at::Device device) {
  std::string& why = why_no_metabolism_;
  const EdgeType* rules = find_edges(graph, "gene", "reaction", why);
  if (!rules) return;
  const EdgeType* stoichiometry = find_edges(graph, "reaction", "metabolite", why);
  if (!stoichiometry) return;
  const EdgeValue* coefficients = find_coefficients(*stoichiometry, why);
  if (!coefficients) return;
  const Ends of_rules = ends_of(*rules), of_stoichiometry = ends_of(*stoichiometry);
  const uint32_t reactions = graph.nodes("reaction").size();
  const uint32_t metabolites = graph.nodes("metabolite").size();
  bipartite_sizes_ = {genes_, reactions, metabolites};
  const auto plan = make_bipartite_plan(uint32_t(genes_), reactions, metabolites, of_rules.list(),
                                        of_stoichiometry.list());
  bipartite_plan_ = bytes_tensor(plan.bytes());
  if (!device.is_cpu()) {
    static const auto place = find_operator<PlaceSignature>("lacuna::place_graph");
    const Tensor like = at::empty({0}, at::TensorOptions(at::kByte).device(device));
    const auto [on_device, nothing, number] =
        place.call(bipartite_plan_, like, false, std::nullopt);
    bipartite_plan_ = on_device;
    bipartite_sizes_.push_back(number);
  }
  const auto values = coefficients->values.as<float>();
  coefficients_ = at::from_blob(const_cast<float*>(values.data()), {int64_t(values.size())})
                      .to(device, at::kFloat, false, /*copy=*/true);
  std::vector<float> alone(reactions, 1);
  for (const uint32_t reaction : of_rules.targets) alone[reaction] = 0;
  without_genes_ =
      at::from_blob(alone.data(), {int64_t(reactions), 1, 1}).to(device, at::kFloat, false, true);
}

ModelInput GeneGraph::with_masks(const ModelInput& input) const {
  if (mask_table_->empty()) return input;
  const Scope scope("masks");
  static const auto op = find_operator<MasksSignature>("lacuna::masks");
  ModelInput result = input;
  result.masks = op.call(*mask_table_, mask_counts_, input.removed, input.ptr);
  return result;
}

void GeneGraph::check_masks(const ModelInput& input) const {
  if (!input.masks.defined() && !mask_table_->empty())
    throw Error(
        "the model calls gin() without masks, which rung device makes; call with_masks() on its "
        "input first, once a batch, or let its reads_masks() say false (docs/add-a-model.md)");
}

Tensor GeneGraph::gin(const Tensor& x, const ModelInput& input, const Tensor& eps,
                      const Tensor& weights) const {
  const Scope scope("aggregation");
  if (input.masks.defined()) {
    static const auto masked = find_operator<MaskedSignature>("lacuna::aggregate_masked");
    return masked.call(buffers_, sizes_, x, input.masks.narrow(0, 0, input.batch()), mask_offsets_,
                       "sum", false, values_beside(x, weights), eps);
  }
  check_masks(input);
  static const auto op = find_operator<AggregateSignature>("lacuna::aggregate");
  return op.call(buffers_, sizes_, x, input.removed, input.ptr, "sum", false,
                 values_beside(x, weights), eps);
}

Tensor GeneGraph::gin_shared(const Tensor& x, const ModelInput& input, const Tensor& eps,
                             const Tensor& weights) const {
  const Scope scope("aggregation");
  static const auto op = find_operator<AggregateSignature>("lacuna::aggregate_shared");
  return op.call(buffers_, sizes_, x, input.removed, input.ptr, "sum", false,
                 values_beside(x, weights), eps);
}

Tensor GeneGraph::wild_type_sums(const Tensor& x, const Tensor& weights) const {
  const Scope scope("aggregation");
  static const auto op = find_operator<AggregateSignature>("lacuna::aggregate");
  const ModelInput nobody = wild_type(x);
  return op
      .call(buffers_, sizes_, x.unsqueeze(1), nobody.removed, nobody.ptr, "sum", false,
            values_beside(x, weights), {})
      .squeeze(2);
}

GraphPlan GeneGraph::plan_on_host() const {
  const std::span bytes(static_cast<const std::byte*>(plan_.const_data_ptr()),
                        size_t(plan_.numel()));
  return GraphPlan::from_bytes(bytes, nullptr);
}

ConeRoom GeneGraph::most_of_cone(int64_t widest) const {
  const auto found = cones_->room.find(widest);
  if (found != cones_->room.end()) return found->second;
  const GraphPlan plan = plan_on_host();
  return cones_->room[widest] = {cone_capacity(plan, 1, widest), most_targets(plan, widest)};
}

const std::vector<GeneGraph::ConeShare>& GeneGraph::cone_shares(int64_t widest,
                                                                size_t layers) const {
  const auto [found, is_new] = cones_->shares.insert({{widest, layers}, {}});
  if (!is_new) return found->second;
  const GraphPlan plan = plan_on_host();
  const RemovedAtRandom removed(genes_, widest);
  const int threads = at::get_num_threads();
  ConeMarks marks = mark_cone(plan, removed.view(), threads);
  for (size_t i = 0; i < layers; ++i) {
    if (i > 0) marks = mark_next(plan, marks, threads);
    found->second.push_back({share_of_rows(marks), share_of_rows(marks.either())});
  }
  return found->second;
}

// A step that is recorded wants the same sizes for every batch, so there is room for the most that
// samples of this width can change: in the first layer, and behind it for every row. What is not in
// use costs memory and no time.
std::vector<Cone> GeneGraph::cones(const ModelInput& input, size_t layers, bool wild,
                                   bool either) const {
  const Scope scope("aggregation");
  if (device().is_cpu())
    return make_cones(buffers_, sizes_, input.removed, input.ptr, layers, wild);
  LACUNA_ASSERT(wild);
  const ConeRoom first = most_of_cone(input.sets.size(1));
  std::vector<ConeRoom> rooms;
  for (size_t i = 0; i < layers; ++i) {
    const int64_t rows = i == 0 ? first.rows : genes_;
    const int64_t of_all = !either ? 0 : i == 0 ? std::max<int64_t>(first.either, 1) : genes_;
    rooms.push_back({rows * input.batch(), of_all * input.batch()});
  }
  return make_cones(buffers_, sizes_, input.removed, input.ptr, rooms);
}

Tensor GeneGraph::gin_cone(const Cone& cone, const Tensor& x, const ModelInput& input,
                           const Tensor& eps, const Tensor& weights) const {
  const Scope scope("aggregation");
  const Tensor values = values_beside(x, weights).value_or(Tensor());
  if (x.dim() == 2) return cone_gin(cone, x, eps, {}, values);
  if (!x.is_cpu()) return cone_take(cone, gin(x, input, eps));
  check_masks(input);
  return cone_gin(
      cone, x, eps,
      input.masks.defined() ? ConeMasks{input.masks.contiguous(), mask_offsets_} : ConeMasks(),
      values);
}

Tensor GeneGraph::neighbour_states(const Tensor& x, const ModelInput& input) const {
  auto& [ptr, sources] = *neighbours_;
  if (!ptr.defined()) {
    std::vector<int64_t> ends = {0}, all;
    const GraphPlan plan = plan_on_host();
    std::set<int64_t> row;
    for (uint32_t v = 0; v < plan.node_count(); ++v) {
      row.clear();
      for (uint32_t t = 0; t < plan.type_count(); ++t) {
        const CsrView csr = plan.by_target(t);
        for (uint32_t k = csr.ptr[v]; k < csr.ptr[v + 1]; ++k) row.insert(plan.neighbour(csr, k));
      }
      row.erase(int64_t(v));
      all.insert(all.end(), row.begin(), row.end());
      ends.push_back(int64_t(all.size()));
    }
    ptr = at::tensor(ends, at::kLong).to(device());
    sources = at::tensor(all, at::kLong).to(device());
  }
  const int64_t batch = input.batch(), k = input.sets.size(1), width = x.size(2);
  const Tensor places = input.sets.reshape(-1);  // [B * k]
  const Tensor genes = places.clamp_min(0);
  const Tensor first = ptr.index_select(0, genes);
  const Tensor counts = (ptr.index_select(0, genes + 1) - first) * places.ge(0);
  // Of every pair of a place and a neighbour, M in all: the place, and the neighbour.
  const Tensor place = at::arange(batch * k, places.options()).repeat_interleave(counts);  // [M]
  const Tensor before = (counts.cumsum(0) - counts).index_select(0, place);
  const Tensor edge = first.index_select(0, place) + at::arange(place.size(0), place.options());
  const Tensor source = sources.index_select(0, edge - before);  // [M]
  const Tensor sample = place.floor_divide(k);
  const Tensor is_kept = kept_genes(input, genes_).index({source, sample});  // [M]
  const Tensor rows = is_kept.nonzero().squeeze(1);
  const Tensor of_place = place.index_select(0, rows);
  const Tensor at_row = (source * x.size(1) + sample).index_select(0, rows);
  const Tensor states = x.reshape({-1, width}).index_select(0, at_row);
  const Tensor zeros = at::zeros({batch * k, width}, x.options());
  const Tensor many = at::zeros({batch * k, 1}, x.options())
                          .index_add(0, of_place, at::ones({rows.size(0), 1}, x.options()));
  return (zeros.index_add(0, of_place, states) / many.clamp_min(1)).reshape({batch, k, width});
}

Tensor GeneGraph::mean(const Tensor& x, const ModelInput& input) const {
  const Scope scope("aggregation");
  static const auto op = find_operator<AggregateSignature>("lacuna::aggregate");
  return op.call(buffers_, sizes_, x, input.removed, input.ptr, "mean", false, {}, {});
}

Tensor GeneGraph::edges(int64_t type) const {
  const GraphPlan plan = plan_on_host();
  const CsrView csr = plan.by_target(uint32_t(type));
  std::vector<int64_t> sources, targets;
  std::set<uint32_t> row;
  for (uint32_t v = 0; v < plan.node_count(); ++v) {
    row.clear();
    for (uint32_t e = csr.ptr[v]; e < csr.ptr[v + 1]; ++e)
      row.insert(plan.index_bytes() == 2 ? static_cast<const uint16_t*>(csr.neighbour)[e]
                                         : static_cast<const uint32_t*>(csr.neighbour)[e]);
    sources.insert(sources.end(), row.begin(), row.end());
    targets.insert(targets.end(), row.size(), v);
  }
  return at::stack({at::tensor(sources), at::tensor(targets)}).to(device());
}

Tensor GeneGraph::bipartite(BipartiteStep step, const Tensor& x, const ModelInput& input) const {
  const Scope scope("aggregation");
  static const auto op = find_operator<BipartiteSignature>("lacuna::bipartite");
  return op.call(bipartite_plan_, coefficients_, bipartite_sizes_, name(step), x, input.removed,
                 input.ptr);
}

}  // namespace lacuna
