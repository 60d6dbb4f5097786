#include "lacuna/nn/models/hetero_gin.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/text/settings.h"

namespace lacuna {
namespace {

constexpr const char* kDefaults = R"(
name: hetero_gin
width: 64
layers: 3
merge: sum            # mean, attention, pairwise
norm: layer           # batch_graph, for parity with published models: it couples the samples of a batch
output: average       # gate, global, local
dropout: 0.1          # in the preprocessor
features: none        # given node features: beside the learned table, or instead of it
metabolism: false     # reactions and metabolites take part in every layer
savings: true         # false: the plain form, which gives the same numbers more slowly
)";
constexpr int64_t kLocalHeads = 8;
const bool known = add_model<HeteroGin>("hetero_gin", kDefaults);

}  // namespace

HeteroGin::HeteroGin(YAML::Node node, const GeneGraph& graph, int64_t label_count) : graph_(graph) {
  const Settings settings(node, "model");
  width_ = settings.count("width", 2, kMostWidth);
  dropout_ = settings.number("dropout", 0, 1);
  savings_ = settings.flag("savings");
  norm_kind_ = norm_kind_from_name(settings.choice("norm", {"layer", "batch_graph"}));
  output_ = output_from_name(settings.choice("output", {"average", "gate", "global", "local"}));
  add_preprocessor(settings.choice("features", {"none", "beside", "instead"}));
  add_layers(settings.count("layers", 1, 1000),
             settings.choice("merge", {"sum", "mean", "attention", "pairwise"}),
             settings.flag("metabolism"));
  add_heads(label_count);
}

void HeteroGin::add_preprocessor(const std::string& features) {
  if (features != "instead")
    table_ = register_parameter("table", at::randn({graph_.genes(), width_}) * 0.02);
  if (features != "none") {
    if (!graph_.features().defined())
      throw Error(
          "model.features is '{}', but the screen has no node features; import them, or set it to "
          "none",
          features);
    from_features_ = register_module("from_features",
                                     std::make_shared<Dense>(graph_.features().size(1), width_));
  }
  for (int i = 0; i < 2; ++i)
    pre_.push_back(
        register_module("pre" + std::to_string(i), std::make_shared<Dense>(width_, width_)));
  pre_norm_ = register_module("pre_norm", std::make_shared<Norm>(norm_kind_, width_));
}

void HeteroGin::add_layers(int64_t count, const std::string& merge, bool metabolism) {
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

void HeteroGin::add_heads(int64_t label_count) {
  if (output_ != Output::local) {
    pool_ = register_module("pool", std::make_shared<Pool>(width_));
    global_ = register_module("global", std::make_shared<GlobalHead>(width_, label_count));
  }
  if (output_ != Output::global)
    local_ =
        register_module("local", std::make_shared<LocalHead>(width_, kLocalHeads, label_count));
  if (output_ == Output::gate) {
    gate_hidden_ = register_module("gate_hidden", std::make_shared<Dense>(2, width_));
    gate_ = register_module("gate", std::make_shared<Dense>(width_, 2));
  }
}

at::Tensor HeteroGin::preprocess() {
  const Scope scope("mlp");
  auto x = table_;
  if (from_features_) {
    const auto dtype = from_features_->weight.scalar_type();
    const auto given = from_features_->forward(graph_.features().to(dtype));
    x = x.defined() ? x + given : given;
  }
  for (const auto& dense : pre_)
    x = at::dropout(at::gelu(pre_norm_->forward(dense->forward(x))), dropout_, is_training());
  return cast(x);
}

at::Tensor HeteroGin::encode(const at::Tensor& shared, const ModelInput& samples) {
  const ModelInput input = graph_.with_masks(samples);
  const int64_t batch = input.batch();
  at::Tensor x;  // [N, B, H]
  for (const auto& layer : layers_) {
    const bool is_first = !x.defined();
    if (is_first && (!savings_ || layer->metabolism))
      x = shared.unsqueeze(1).expand({-1, batch, -1}).contiguous();
    const auto u = is_first && savings_ ? graph_.gin_shared(shared, input, layer->eps)
                                        : graph_.gin(x, input, layer->eps);  // [G, N, B, H]
    at::Tensor y;                                                            // [G, N * B, H]
    {
      const Scope scope("mlp");
      y = layer->mlp->forward(u.flatten(1, 2));
    }
    if (layer->metabolism) y = at::cat({y, layer->metabolism->forward(x, input)});
    const Scope scope("merge");
    x = layer->merge->forward(y).reshape({graph_.genes(), batch, width_});
  }
  return x;
}

HeteroGin::States HeteroGin::encode_with_wild_type(const ModelInput& input) {
  // Once, dropout included: what the wild type and a sample differ in are the removed genes alone.
  const auto shared = preprocess();
  // With batch_graph the statistics of the wild type are its own, so it cannot share the batch.
  if (norm_kind_ == NormKind::batch_graph || !savings_)
    return {at::cat({encode(shared, input), encode(shared, wild_type(input))}, 1)};
  return {encode(shared, with_wild_type(input))};
}

// All in one call, so that the sums of a sample and of the wild type run in the same order: their
// difference is small, and what the two share must round alike to cancel.
at::Tensor HeteroGin::pool(const States& states, const ModelInput& input) {
  return pool_->forward(states.all, kept_genes(with_wild_type(input), graph_.genes()));
}

at::Tensor HeteroGin::forward(const ModelInput& input) {
  const States states = encode_with_wild_type(input);
  const Scope scope("heads");
  at::Tensor global, local;  // [B, L]
  if (global_) {
    const auto pooled = pool(states, input);
    const auto of_wild_type = pooled.narrow(0, states.batch(), 1);
    global = global_->forward(of_wild_type - pooled.narrow(0, 0, states.batch()));
  }
  if (local_) local = local_->forward(wide(states.wild_type()), input.sets);
  switch (output_) {
    case Output::global:
      return global;
    case Output::local:
      return local;
    case Output::average:
      return 0.5 * global + 0.5 * local;
    case Output::gate:
      break;
  }
  const auto both = at::stack({global, local}, -1);  // [B, L, 2]
  const auto weights = at::softmax(gate_->forward(at::gelu(gate_hidden_->forward(both))), -1);
  return (both * weights).sum(-1);
}

std::map<std::string, at::Tensor> HeteroGin::embeddings(const ModelInput& input) {
  const States states = encode_with_wild_type(input);
  std::map<std::string, at::Tensor> result = {{"genes", states.wild_type()}};
  if (pool_) result["pooled"] = pool(states, input).narrow(0, 0, states.batch());
  return result;
}

}  // namespace lacuna
