// WildType: every gene is described once, on the wild type's networks, and a sample by the
// descriptions of the genes that it removes. No perturbed copy is encoded, so a step costs the same
// for one sample and for thousands: the model for large batches, and with `train.hide` for genes
// that training never saw.
//
//   embedding (and given features) -> L layers -> the states of the removed genes -> PairHead
//   layer: x = norm(x + dropout(gelu(W x + sum over networks g of W_g A_g x)))
//
// On the CPU a training step computes the last layer for the genes that its batch removes alone: in
// a screen of few mutants most of the work.
//
// A_g x sums over in-neighbours by edge weights, normalised by weighted degrees unless told
// otherwise. Linears of a layer start with variance 1 / (3 in), so that many networks do not drown
// x.
#include <ATen/ATen.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/nn/heads.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/model.h"

namespace lacuna::wild_type_model {

constexpr const char* kDefaults = R"(
name: wild_type
width: 128
layers: 2
weights: normalised   # of edges by weighted degrees; values, none
dropout: 0.2          # in every layer and in the head
features: none        # given node features: beside the learned table, or instead of it
feature_names: []     # which of them; none named: all
)";

class WildType : public Model {
 public:
  WildType(YAML::Node node, const GeneGraph& graph, int64_t label_count) : graph_(graph) {
    const Settings settings(node, "model");
    width_ = settings.count("width", 1, kMostWidth);
    dropout_ = settings.number("dropout", 0, 1);
    weights_ = graph.weights(
        edge_weights_from_name(settings.choice("weights", {"none", "values", "normalised"})));
    feature_names_ = settings.list("feature_names");
    add_rows(settings.choice("features", {"none", "beside", "instead"}));
    const int64_t layers = settings.count("layers", 1, 1000);
    for (int64_t i = 0; i < layers; ++i)
      layers_.push_back(register_module("layer" + std::to_string(i),
                                        std::make_shared<Layer>(graph.type_count(), width_)));
    head_ = register_module("local", std::make_shared<PairHead>(width_, label_count));
  }

  bool reads_masks() const override { return false; }
  bool reads_features() const override { return from_features_ != nullptr; }
  std::vector<std::string> feature_names() const override { return feature_names_; }
  bool reads_weights() const override { return weights_.defined(); }
  bool reads_metabolism() const override { return false; }
  at::Tensor gene_rows() const override { return table_; }
  void keep_wild_type(bool keep) override {
    keeps_wild_type_ = keep;
    kept_ = at::Tensor();
  }

  at::Tensor forward(const ModelInput& input) override {
    const auto rows = wide(states_of(input.sets));  // [B, k, H]
    const Scope scope("heads");
    return head_->forward(rows, input.sets,
                          [&](const at::Tensor& x) { return drop_out(x, dropout_, input); });
  }

  std::map<std::string, at::Tensor> embeddings(const ModelInput&) override {
    return {{"genes", states()}};
  }

 private:
  struct Layer : torch::nn::Module {
    Layer(int64_t networks, int64_t width) {
      const auto dense = [&](const char* name, int64_t in) {
        return register_module(
            name, std::make_shared<Dense>(in, width, std::sqrt(1.0 / (3.0 * double(in)))));
      };
      own = dense("own", width);
      heard = dense("heard", networks * width);
      norm = register_module("norm", std::make_shared<Norm>(NormKind::layer, width));
    }
    std::shared_ptr<Dense> own, heard;  // W; the W_g one below another
    std::shared_ptr<Norm> norm;
  };

  void add_rows(const std::string& features) {
    if (features != "instead")
      table_ = register_parameter("table", at::randn({graph_.genes(), width_}) * 0.1);
    if (features == "none") return;
    given_ = graph_.features(feature_names_);
    if (!given_.defined())
      throw Error(
          "model.features is '{}', but the screen has no node features; import them, `lacuna "
          "features` makes some, or set it to none",
          features);
    from_features_ =
        register_module("from_features", std::make_shared<Dense>(given_.size(1), width_));
  }

  // [B, k, H]
  at::Tensor states_of(const at::Tensor& sets) {
    if (!sets.is_cpu() || !at::GradMode::is_enabled()) return rows_of_sets(states(), sets);
    // The distinct genes, ascending, and where among them each place's is.
    const auto [genes, places, counts] = at::_unique2(sets.clamp_min(0), true, true);
    return rows_of_sets(encode(genes), places);
  }

  // [N, H]
  at::Tensor states() {
    if (!keeps_wild_type_ || at::GradMode::is_enabled()) return encode();
    if (!kept_.defined()) kept_ = encode();
    return kept_;
  }

  // [N, H], or [genes, H] of these genes alone.
  at::Tensor encode(const at::Tensor& genes = {}) {
    auto x = visible_rows();
    if (from_features_) {
      const auto given = from_features_->forward(given_.to(from_features_->weight.scalar_type()));
      x = x.defined() ? x + given : given;
    }
    x = cast(x);
    for (const auto& layer : layers_) {
      auto sums = graph_.wild_type_sums(x, weights_);  // [G, N, H]
      const Scope scope("mlp");
      auto kept = dropout_of(x);  // [N, H]
      if (genes.defined() && layer == layers_.back()) {
        sums = sums.index_select(1, genes);
        if (kept.defined()) kept = kept.index_select(0, genes);
        x = x.index_select(0, genes);
      }
      const auto heard = layer->heard->forward(sums.transpose(0, 1).flatten(1));  // [N, H]
      const auto more = at::gelu(layer->own->forward(x) + heard);
      x = layer->norm->forward(x + (kept.defined() ? more * kept : more));
    }
    return x;
  }

  // What dropout multiplies x [N, H] by, or undefined. Drawn for every gene: ranks whose batches
  // remove other genes draw alike.
  at::Tensor dropout_of(const at::Tensor& x) const {
    if (!is_training() || dropout_ == 0) return {};
    const auto kept = at::empty_like(x.detach()).bernoulli_(1 - dropout_);
    return dropout_ < 1 ? kept.div_(1 - dropout_) : kept;
  }

  GeneGraph graph_;
  int64_t width_;
  double dropout_;
  at::Tensor weights_;  // [E] of the edges, or undefined
  std::vector<std::string> feature_names_;
  at::Tensor table_, given_;  // [N, H] learned, [N, d] given; or undefined
  std::shared_ptr<Dense> from_features_;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::shared_ptr<PairHead> head_;
  bool keeps_wild_type_ = false;
  at::Tensor kept_;  // [N, H]
};

const bool known = add_model<WildType>("wild_type", kDefaults);

}  // namespace lacuna::wild_type_model
