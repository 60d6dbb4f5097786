// HeteroGin: message passing over every gene network at once, with the removed genes taken out of
// each sample's copy.
//
//   embedding (and given features) -> preprocessor -> L layers -> pool over kept genes -> global
//   head; wild-type states of the removed genes (or the sample's states of their neighbours) ->
//   local head; both -> output
//   layer: for each graph g   u = (weighted) sum over kept in-neighbours + (1 + eps_g) x
//                             y_g = gelu(norm_g(four Linears with GELU between))
//          then a merge over the graphs (merge.h)
//
// The samples of a batch and the wild type stand side by side: [N, B + 1, H]. What all samples
// share is computed once: the preprocessor, and every row that no removed gene reaches (ops/cone).
// On the CPU so in every layer, and the wild type once a call of predict or evaluate. On a GPU in
// the first layers, as long as it takes less time than computing every row; of the first layer then
// still its sums (aggregate_shared). Norm batch_graph couples all rows, and metabolism reads all
// genes: both compute every row; so does a GPU with edge weights.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/nn/heads.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/merge.h"
#include "lacuna/nn/model.h"

namespace lacuna::hetero_gin {

constexpr const char* kDefaults = R"(
name: hetero_gin
width: 64
layers: 3
merge: sum            # mean, attention, pairwise
norm: layer           # batch_graph, for parity with published models: it couples the samples of a batch
output: average       # gate, global, local
local: attention      # or a head of pairs, of wild_type or neighbours (docs/runs.md)
weights: none         # of edges: their values, or normalised by weighted degrees
dropout: 0.1          # in the preprocessor, and in a head of pairs
features: none        # given node features: beside the learned table, or instead of it
feature_names: []     # which of them; none named: all
metabolism: false     # reactions and metabolites take part in every layer
savings: true         # false: the plain form, which gives the same numbers more slowly
)";
constexpr int64_t kLocalHeads = 8;
// Samples that are predicted at a time on the CPU. It matters little: 64 pairs of the real networks
// took 4.3, 4.7 and 4.7 s of processor time with 4, 8 and 16 (0.4, 0.6 and 0.9 GB); the fewer, the
// less there is for two cores to share.
constexpr int64_t kCpuSamples = 16;
// On a GPU as many as keep all of it busy. As large as u, in f32 or half of that, are the rows
// taken out of it, y, and y gathered. By what the device has, not by what is free: the same in
// every run.
constexpr int64_t kGpuSamples = 512, kArrays = 4;
constexpr double kShareOfMemory = 0.25;
// On a GPU a layer's listed rows are taken out of all, and put back: where more than this share of
// them differs, it computes every row.
constexpr double kMostOfCone = 0.6;

// The metabolism branch of a layer: what a gene's reactions and their metabolites say about it.
//
//   r    mean of a reaction's genes; a learned vector where it has none; 0 where it is off
//   m    sum over a metabolite's kept reactions of stoichiometry * Linear(r)
//   r'   gelu(Linear([r, sum of stoichiometry * m over its metabolites]))
//   y    gelu(norm(MLP(mean over a gene's kept reactions of r')))
//
// Which reactions are off follows from the removed genes (ops/bipartite): no mask.
class Metabolism : public torch::nn::Module {
 public:
  // Throws Error for a graph without metabolism.
  Metabolism(const GeneGraph& graph, int64_t width, NormKind norm) : graph_(graph) {
    if (!graph.has_metabolism())
      throw Error("model.metabolism is true, but {}; mend the screen, or set it to false",
                  graph.why_no_metabolism());
    start_ = register_parameter("start", at::randn({width}) * 0.02);
    to_metabolite_ = register_module("to_metabolite", std::make_shared<Dense>(width, width));
    back_ = register_module("back", std::make_shared<Dense>(2 * width, width));
    mlp_ = register_module("mlp", std::make_shared<GraphMlp>(1, width, norm));
  }

  // x [N, B, H] -> [1, N * B, H], one more y for the merge
  at::Tensor forward(const at::Tensor& x, const ModelInput& input) const {
    const auto dtype = x.scalar_type();
    const auto step = [&](BipartiteStep which, const at::Tensor& from) {
      return graph_.bipartite(which, from.contiguous(), input);
    };
    const auto of_genes = step(BipartiteStep::gene_to_reaction, x);  // [R, B, H]
    const auto r = of_genes + graph_.without_genes().to(dtype) * start_.to(dtype);
    const auto m = step(BipartiteStep::reaction_to_metabolite, to_metabolite_->forward(r));
    const auto heard = step(BipartiteStep::metabolite_to_reaction, m);     // [R, B, H]
    const auto after = at::gelu(back_->forward(at::cat({r, heard}, -1)));  // [R, B, H]
    const auto back = step(BipartiteStep::reaction_to_gene, after);        // [N, B, H]
    const Scope scope("mlp");
    return mlp_->forward(back.flatten(0, 1).unsqueeze(0));
  }

 private:
  GeneGraph graph_;
  at::Tensor start_;  // [H] of reactions without genes
  std::shared_ptr<Dense> to_metabolite_, back_;
  std::shared_ptr<GraphMlp> mlp_;
};

class HeteroGin : public Model {
 public:
  HeteroGin(YAML::Node node, const GeneGraph& graph, int64_t label_count) : graph_(graph) {
    const Settings settings(node, "model");
    width_ = settings.count("width", 2, kMostWidth);
    dropout_ = settings.number("dropout", 0, 1);
    savings_ = settings.flag("savings");
    norm_kind_ = norm_kind_from_name(settings.choice("norm", {"layer", "batch_graph"}));
    output_ = output_from_name(settings.choice("output", {"average", "gate", "global", "local"}));
    local_kind_ =
        local_from_name(settings.choice("local", {"attention", "wild_type", "neighbours"}));
    weights_ = graph_.weights(
        edge_weights_from_name(settings.choice("weights", {"none", "values", "normalised"})));
    feature_names_ = settings.list("feature_names");
    add_preprocessor(settings.choice("features", {"none", "beside", "instead"}));
    add_layers(settings.count("layers", 1, 1000),
               settings.choice("merge", {"sum", "mean", "attention", "pairwise"}),
               settings.flag("metabolism"));
    add_heads(label_count);
  }

  bool is_static() const override { return !reads_neighbours(); }
  bool reads_masks() const override { return layers_.size() > 1 || !savings_; }
  bool reads_features() const override { return from_features_ != nullptr; }
  std::vector<std::string> feature_names() const override { return feature_names_; }
  bool reads_weights() const override { return weights_.defined(); }
  bool reads_metabolism() const override { return layers_[0]->metabolism != nullptr; }
  at::Tensor gene_rows() const override { return table_; }

  void keep_wild_type(bool keep) override {
    keeps_wild_type_ = keep;
    wild_type_ = {};
  }
  int64_t samples_at_a_time() const override {
    if (norm_kind_ == NormKind::batch_graph) return 0;  // the samples of a batch belong together
    const at::Device device = graph_.device();
    if (device.is_cpu()) return kCpuSamples;
    const int64_t memory =
        int64_t(at::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).second);
    const int64_t numbers = graph_.type_count() * graph_.genes() * width_;  // of a sample's u
    const int64_t most =
        std::min(int64_t(double(memory) * kShareOfMemory) / (kArrays * 4 * numbers),
                 (int64_t(1) << 31) / numbers - 1);
    return std::clamp<int64_t>(most, 1, kGpuSamples);
  }

  at::Tensor forward(const ModelInput& input) override {
    if (!global_ && !reads_neighbours()) {
      const at::Tensor genes = encode_wild_type(input);
      const Scope scope("heads");
      return score_locally(genes, input);
    }
    const States states = encode_with_wild_type(input);
    const Scope scope("heads");
    at::Tensor local;  // [B, L]
    if (reads_neighbours())
      local = pairs_->forward(wide(graph_.neighbour_states(states.all, input)), input.sets,
                              drop_out_of(input));
    else if (output_ != Output::global)
      local = score_locally(states.wild_type(), input);
    if (!global_) return local;
    const auto pooled = pool(states, input);
    const auto of_wild_type = pooled.narrow(0, states.batch(), 1);
    const auto global = global_->forward(of_wild_type - pooled.narrow(0, 0, states.batch()));
    switch (output_) {
      case Output::local:
      case Output::global:
        return global;
      case Output::average:
        return 0.5 * global + 0.5 * local;
      case Output::gate:
        break;
    }
    const auto both = at::stack({global, local}, -1);  // [B, L, 2]
    const auto weights = at::softmax(gate_->forward(at::gelu(gate_hidden_->forward(both))), -1);
    return (both * weights).sum(-1);
  }

  std::map<std::string, at::Tensor> embeddings(const ModelInput& input) override {
    if (!pool_) return {{"genes", encode_wild_type(input)}};
    const States states = encode_with_wild_type(input);
    return {{"genes", states.wild_type()},
            {"pooled", pool(states, input).narrow(0, 0, states.batch())}};
  }

 private:
  struct Layer : torch::nn::Module {
    at::Tensor eps;  // [G]
    std::shared_ptr<GraphMlp> mlp;
    std::shared_ptr<Metabolism> metabolism;  // or null
    std::shared_ptr<Merge> merge;
  };
  struct States {
    at::Tensor all;  // [N, B + 1, H], the wild type last

    int64_t batch() const { return all.size(1) - 1; }
    at::Tensor wild_type() const { return all.select(1, batch()); }  // [N, H]
  };

  void add_preprocessor(const std::string& features) {
    if (features != "instead")
      table_ = register_parameter("table", at::randn({graph_.genes(), width_}) * 0.02);
    if (features != "none") {
      given_ = graph_.features(feature_names_);
      if (!given_.defined())
        throw Error(
            "model.features is '{}', but the screen has no node features; import them, or set it "
            "to none",
            features);
      from_features_ =
          register_module("from_features", std::make_shared<Dense>(given_.size(1), width_));
    }
    for (int i = 0; i < 2; ++i)
      pre_.push_back(
          register_module("pre" + std::to_string(i), std::make_shared<Dense>(width_, width_)));
    pre_norm_ = register_module("pre_norm", std::make_shared<Norm>(norm_kind_, width_));
  }

  void add_layers(int64_t count, const std::string& merge, bool metabolism) {
    const int64_t graphs = graph_.type_count();
    for (int64_t i = 0; i < count; ++i) {
      const auto layer = register_module("layer" + std::to_string(i), std::make_shared<Layer>());
      layer->eps = layer->register_parameter("eps", at::zeros({graphs}));
      layer->mlp =
          layer->register_module("mlp", std::make_shared<GraphMlp>(graphs, width_, norm_kind_));
      if (metabolism)
        layer->metabolism = layer->register_module(
            "metabolism", std::make_shared<Metabolism>(graph_, width_, norm_kind_));
      layer->merge = layer->register_module(
          "merge",
          make_merge(merge, graphs + metabolism, width_, norm_kind_, graph_.device(), savings_));
      layers_.push_back(layer);
    }
  }

  void add_heads(int64_t label_count) {
    if (output_ != Output::local) {
      pool_ = register_module("pool", std::make_shared<Pool>(width_));
      global_ = register_module("global", std::make_shared<GlobalHead>(width_, label_count));
    }
    if (output_ != Output::global && local_kind_ == Local::attention)
      local_ =
          register_module("local", std::make_shared<LocalHead>(width_, kLocalHeads, label_count));
    else if (output_ != Output::global)
      pairs_ = register_module("local", std::make_shared<PairHead>(width_, label_count));
    if (output_ == Output::gate) {
      gate_hidden_ = register_module("gate_hidden", std::make_shared<Dense>(2, width_));
      gate_ = register_module("gate", std::make_shared<Dense>(width_, 2));
    }
  }

  bool reads_neighbours() const { return pairs_ && local_kind_ == Local::neighbours; }
  PairHead::DropOut drop_out_of(const ModelInput& input) const {
    return [this, &input](const at::Tensor& x) { return drop_out(x, dropout_, input); };
  }
  // By the wild type's states [N, H] of the removed genes -> [B, L]
  at::Tensor score_locally(const at::Tensor& genes, const ModelInput& input) {
    if (local_) return local_->forward(wide(genes), input.sets);
    return pairs_->forward(wide(rows_of_sets(genes, input.sets)), input.sets, drop_out_of(input));
  }

  // [N, H]
  at::Tensor preprocess() {
    const Scope scope("mlp");
    auto x = visible_rows();
    if (from_features_) {
      const auto dtype = from_features_->weight.scalar_type();
      const auto given = from_features_->forward(given_.to(dtype));
      x = x.defined() ? x + given : given;
    }
    for (const auto& dense : pre_)
      x = at::dropout(at::gelu(pre_norm_->forward(dense->forward(x))), dropout_, is_training());
    return cast(x);
  }

  // shared [N, H]: the preprocessed rows, from which all samples start -> [N, B, H]
  at::Tensor encode(const at::Tensor& shared, const ModelInput& samples) {
    return encode_from(0, shared, graph_.with_masks(samples));
  }

  // The layers from number `first` on; x [N, B, H], or [N, H] in front of the first layer.
  at::Tensor encode_from(size_t first, at::Tensor x, const ModelInput& input) {
    const int64_t batch = input.batch();
    for (size_t i = first; i < layers_.size(); ++i) {
      const auto& layer = layers_[i];
      const at::Tensor shared = i == 0 ? x : at::Tensor();
      if (i == 0 && (!savings_ || layer->metabolism))
        x = shared.unsqueeze(1).expand({-1, batch, -1}).contiguous();
      const auto u = i == 0 && savings_
                         ? graph_.gin_shared(shared, input, layer->eps, weights_)
                         : graph_.gin(x, input, layer->eps, weights_);  // [G, N, B, H]
      x = dense_part(*layer, u.flatten(1, 2), x, input).reshape({graph_.genes(), batch, width_});
    }
    return x;
  }

  // u [G, N * B, H], x [N, B, H] or undefined where the layer has no metabolism -> [N * B, H]
  at::Tensor dense_part(const Layer& layer, const at::Tensor& u, const at::Tensor& x,
                        const ModelInput& input) {
    const auto share = layer.merge->share_of_sum();
    at::Tensor y;  // [G, N * B, H]
    {
      const Scope scope("mlp");
      if (share && !layer.metabolism && layer.mlp->is_fused(u))
        return layer.mlp->forward_sum(u, *share);
      y = layer.mlp->forward(u);
    }
    if (layer.metabolism) y = at::cat({y, layer.metabolism->forward(x, input)});
    const Scope scope("merge");
    return layer.merge->forward(y);
  }

  States encode_with_wild_type(const ModelInput& input) {
    // With batch_graph the statistics of the wild type are its own, so it cannot share the batch.
    if (savings_ && norm_kind_ == NormKind::layer) return {encode_by_cones(input)};
    // Once, dropout included: a sample differs from the wild type in its removed genes alone.
    const auto shared = preprocess();
    return {at::cat({encode(shared, input), encode(shared, wild_type(input))}, 1)};
  }

  // [N, H]
  at::Tensor encode_wild_type(const ModelInput& input) {
    return keeps_wild_type() ? kept_wild_type(input).last : compute_wild_type(input).last;
  }

  // ---- on what differs
  // What is kept of a layer's rows of the wild type.
  struct WildTypeLayer {
    at::Tensor y;       // [G, N, H]
    at::Tensor merged;  // [1, N, H]
  };
  struct WildType {
    at::Tensor shared, last;            // [N, H] in front of the first layer, behind the last
    std::vector<WildTypeLayer> layers;  // where cones read them
  };
  struct ConeStates {
    at::Tensor y;    // [G, rows, H]
    at::Tensor all;  // [N, B + 1, H], the wild type last
  };

  bool has_cones() const {
    return savings_ && norm_kind_ == NormKind::layer && !reads_metabolism();
  }
  bool keeps_wild_type() const { return keeps_wild_type_ && !at::GradMode::is_enabled(); }

  // Whether all that follows a layer's sums computes the rows in use alone; x [N, H].
  bool looks_at_used(const Layer& layer, const at::Tensor& x) const {
    if (!layer.mlp->is_fused(x)) return false;
    return layer.merge->share_of_sum() ||
           layer.merge->looks_at_used(at::empty({graph_.type_count(), 0, width_}, x.options()));
  }
  // How many layers, from the first on, compute what differs; the others compute every row.
  size_t cone_layers(const ModelInput& input, const at::Tensor& x) const {
    if (!has_cones()) return 0;
    if (x.is_cpu()) return layers_.size();
    if (weights_.defined()) {
      tell_way("sums: every row, the kernels for the rows that differ take no edge weights");
      return 0;
    }
    const auto& shares = graph_.cone_shares(input.sets.size(1), layers_.size());
    const auto pays = [&](size_t i) {
      const bool is_sum = layers_[i]->merge->share_of_sum().has_value();
      if (i == 0 && is_sum) return true;
      return looks_at_used(*layers_[i], x) &&
             (is_sum ? shares[i].of_type : shares[i].either) <= kMostOfCone;
    };
    size_t count = 0;
    while (count < layers_.size() && pays(count)) ++count;
    return count;
  }

  // x: as gin_cone() takes it. wild: where the cone has no rows of the wild type.
  ConeStates cone_layer(const Layer& layer, const Cone& cone, const at::Tensor& x,
                        const ModelInput& input, const WildTypeLayer& wild = {}) {
    const auto u = graph_.gin_cone(cone, x, input, layer.eps, weights_);  // [G, rows, H]
    ConeStates states;
    {
      const Scope scope("mlp");
      states.y = layer.mlp->forward(u, cone.used);
    }
    const Scope scope("merge");
    if (const auto share = layer.merge->share_of_sum()) {
      states.all = cone_sum(cone, states.y, *share, wild.y);
    } else {
      const auto rows = cone_gather(cone, states.y, wild.y);
      const auto merged =
          layer.merge->forward(rows, cone.counted ? cone.either_used : at::Tensor());
      states.all = cone_sum(cone.either(), merged.unsqueeze(0), 1, wild.merged);
    }
    return states;
  }

  // [N, B + 1, H], the wild type last. Preprocessed once, dropout included: a sample differs from
  // the wild type in its removed genes alone.
  at::Tensor encode_by_cones(const ModelInput& samples) {
    const bool kept = keeps_wild_type() && has_cones() && graph_.device().is_cpu();
    const WildType* const wild = kept ? &kept_wild_type(samples) : nullptr;
    auto x = wild ? wild->shared : preprocess();
    const ModelInput masked = graph_.with_masks(with_wild_type(samples));
    const size_t count = cone_layers(samples, x);
    const bool counted = count > 0 && looks_at_used(*layers_[0], x);
    auto cones = graph_.cones(samples, count, !wild, !layers_[0]->merge->share_of_sum());
    for (size_t i = 0; i < count; ++i) {
      cones[i].counted = counted;
      x = cone_layer(*layers_[i], cones[i], x, masked, wild ? wild->layers[i] : WildTypeLayer())
              .all;
    }
    return encode_from(count, x, masked);
  }

  WildType compute_wild_type(const ModelInput& input) {
    const auto shared = preprocess();
    if (has_cones() && shared.is_cpu()) return layers_of_wild_type(shared, input);
    return {shared, encode(shared, wild_type(input)).squeeze(1), {}};
  }

  // The wild type is what a batch without samples has.
  WildType layers_of_wild_type(const at::Tensor& shared, const ModelInput& input) {
    WildType result = {shared, {}, {}};
    const ModelInput masked = graph_.with_masks(wild_type(input));
    ModelInput nobody = masked;
    nobody.ptr = masked.ptr.narrow(0, 0, 1);
    const auto cones = graph_.cones(nobody, layers_.size(), /*wild=*/true, /*either=*/true);
    auto x = shared;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const ConeStates states = cone_layer(*layers_[i], cones[i], x, masked);
      x = states.all;  // [N, 1, H]
      result.layers.push_back({states.y, x.transpose(0, 1).contiguous()});
    }
    result.last = result.layers.back().merged.squeeze(0);
    return result;
  }

  const WildType& kept_wild_type(const ModelInput& input) {
    if (!wild_type_) wild_type_ = compute_wild_type(input);
    return *wild_type_;
  }

  // [B + 1, H]. All in one call, so that the sums of a sample and of the wild type run in the same
  // order: their difference is small, and what the two share must round alike to cancel.
  at::Tensor pool(const States& states, const ModelInput& input) {
    return pool_->forward(states.all, kept_genes(with_wild_type(input), graph_.genes()));
  }

  GeneGraph graph_;
  int64_t width_;
  double dropout_;
  bool savings_;
  NormKind norm_kind_;
  Output output_;
  Local local_kind_;
  at::Tensor weights_;  // [E] of the edges, or undefined
  std::vector<std::string> feature_names_;
  at::Tensor table_, given_;  // [N, H] learned, [N, d] given; or undefined
  std::shared_ptr<Dense> from_features_;
  std::vector<std::shared_ptr<Dense>> pre_;
  std::shared_ptr<Norm> pre_norm_;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<GlobalHead> global_;
  std::shared_ptr<LocalHead> local_;  // or
  std::shared_ptr<PairHead> pairs_;   // both null where the output is global
  std::shared_ptr<Dense> gate_hidden_, gate_;
  bool keeps_wild_type_ = false;
  std::optional<WildType> wild_type_;
};

const bool known = add_model<HeteroGin>("hetero_gin", kDefaults);

}  // namespace lacuna::hetero_gin
