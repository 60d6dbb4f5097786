// Factors: every gene has a learned row of factors, each network passes rows on to neighbours with
// one learned strength, and two genes are scored by the products of what they have then. With
// `train.hide` a gene learns to be known by its neighbours' rows, so that the model can speak for
// genes that training never saw.
//
//   x = own * row + sum over networks g of heard_g (A_g row) (+ W given features) -> ProductHead
//
// It is the matrix of all pairs in factors, smoothed over the networks: linear in everything but
// the small network of its head, so a step takes milliseconds. A_g sums over in-neighbours by edge
// weights, normalised by weighted degrees unless told otherwise. Beside every network stands that
// of the genes whose neighbours in it are most alike (graph/similar_genes.h), with a strength of
// its own; those without training samples have nothing to say and are not among them.
//
// What is small is likelier: shrink times the mean square of the learned rows is added to the loss.
//
// On the CPU a training step computes the genes with training samples alone, over the edges between
// them: those without all have the same row, `hidden.unknown`, which reaches a gene with a fixed
// share.
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/nn/heads.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/model.h"

namespace lacuna::factors_model {

constexpr const char* kDefaults = R"(
name: factors
width: 128
similar: 32           # beside each network, links to so many genes with the likest neighbours
head_width: 64        # of the network beside the products; 0: products alone
weights: normalised   # of edges by weighted degrees; values, none
shrink: 10            # of the learned rows towards 0
features: none        # given node features: none, beside (the learned rows)
feature_names: []     # which of them; none named: all
)";

class Factors : public Model {
 public:
  Factors(YAML::Node node, const GeneGraph& graph, int64_t label_count) : graph_(graph) {
    const Settings settings(node, "model");
    const int64_t width = settings.count("width", 1, kMostWidth);
    shrink_ = settings.number("shrink", 0);
    weights_ = graph.weights(
        edge_weights_from_name(settings.choice("weights", {"none", "values", "normalised"})));
    similar_ = std::min(settings.count("similar", 0), graph.genes());
    feature_names_ = settings.list("feature_names");
    table_ = register_parameter("table", at::randn({graph.genes(), width + label_count}) * 0.05);
    own_ = register_parameter("own", at::full({}, 3.0));
    heard_ = register_parameter("heard", at::ones({graph.type_count() * (similar_ > 0 ? 2 : 1)}));
    if (settings.choice("features", {"none", "beside"}) == "beside")
      add_features(graph, width + label_count);
    head_ = register_module(
        "head", std::make_shared<ProductHead>(width, settings.count("head_width", 0, kMostWidth),
                                              label_count));
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
    const auto& sets = input.sets;
    const auto places = places_among_seen(sets);
    const auto rows = places.defined() ? rows_of_sets(encode_seen(), places)
                                       : rows_of_sets(states(), sets);  // [B, k, H + L]
    const Scope scope("heads");
    return head_->forward(wide(rows), sets);
  }

  at::Tensor total_loss(const at::Tensor& prediction_loss, int64_t) override {
    if (shrink_ == 0) return prediction_loss;
    const HiddenGenes* const hidden = hidden_genes();
    const auto rows = hidden ? table_.masked_fill(hidden->always(), 0) : table_;
    const int64_t count = graph_.genes() - (hidden ? int64_t(hidden->unseen().size()) : 0);
    const auto size = rows.square().sum() / double(std::max<int64_t>(count, 1) * table_.size(1));
    return prediction_loss + shrink_ * size;
  }

  std::map<std::string, at::Tensor> embeddings(const ModelInput&) override {
    return {{"genes", states()}};
  }

 private:
  // What rows are passed on by; made anew where other genes are unseen.
  struct Networks {
    std::vector<int64_t> unseen;
    GeneGraph graph;     // with those of similar genes
    at::Tensor weights;  // of its edges, or undefined
    // On the CPU: the same between the S genes that are not unseen.
    at::Tensor seen = {},
               place = {};  // [S] i64 and [N]: their numbers, and where each gene stands; or -1
    std::optional<GeneGraph> between = {};
    at::Tensor between_weights = {};
    at::Tensor share = {};  // [G, S, 1]: what unseen genes add up to, each with a row of 1
  };

  void add_features(const GeneGraph& graph, int64_t width) {
    given_ = graph.features(feature_names_);
    if (!given_.defined())
      throw Error(
          "model.features is 'beside', but the screen has no node features; import them, `lacuna "
          "features` makes some, or set it to none");
    from_features_ =
        register_module("from_features", std::make_shared<Dense>(given_.size(1), width, kScoreStd));
  }

  // [N, H + L]
  at::Tensor states() {
    if (!keeps_wild_type_ || at::GradMode::is_enabled()) return encode();
    if (!kept_.defined()) kept_ = encode();
    return kept_;
  }

  at::Tensor encode() {
    const Networks& by = networks();
    const auto rows = cast(visible_rows());
    return join(rows, by.graph.wild_type_sums(rows, by.weights), given_);
  }

  // [S, H + L]
  at::Tensor encode_seen() {
    const Networks& by = networks();
    const auto rows = cast(visible_rows().index_select(0, by.seen));
    const auto unknown = hidden_genes()->unknown.to(rows.scalar_type());
    const auto sums = by.between->wild_type_sums(rows, by.between_weights) +
                      by.share.to(rows.scalar_type()) * unknown;
    return join(rows, sums, given_.defined() ? given_.index_select(0, by.seen) : given_);
  }

  // rows [n, D], sums [G, n, D], given [n, d] or undefined -> [n, D]
  at::Tensor join(const at::Tensor& rows, const at::Tensor& sums, const at::Tensor& given) const {
    const Scope scope("mlp");
    const auto kind = rows.scalar_type();
    const auto heard = at::matmul(heard_.to(kind), sums.flatten(1)).view_as(rows);
    const auto x = own_.to(kind) * rows + heard;
    return from_features_ ? x + from_features_->forward(given.to(kind)) : x;
  }

  // [B, k]: where the genes of sets stand among the seen ones, where a training step on the CPU
  // needs these alone; else undefined.
  at::Tensor places_among_seen(const at::Tensor& sets) {
    const HiddenGenes* const hidden = hidden_genes();
    if (!sets.is_cpu() || !is_training() || !hidden || hidden->unseen().empty()) return {};
    const auto places = networks().place.index_select(0, sets.clamp_min(0).flatten()).view_as(sets);
    return at::logical_and(sets.ge(0), places.lt(0)).any().item<bool>() ? at::Tensor() : places;
  }

  const Networks& networks() {
    static const std::vector<int64_t> kNobody;
    const auto& unseen = hidden_genes() ? hidden_genes()->unseen() : kNobody;
    if (!networks_ || networks_->unseen != unseen) networks_ = make_networks(unseen);
    return *networks_;
  }

  Networks make_networks(const std::vector<int64_t>& unseen) const {
    const at::NoGradGuard guard;
    Networks made = {.unseen = unseen, .graph = graph_, .weights = weights_};
    if (similar_ > 0) {
      const auto weights = weights_.defined() ? weights_ : at::ones({graph_.edge_count()});
      std::tie(made.graph, made.weights) = graph_.with_similar(similar_, unseen, weights);
    }
    if (graph_.device().is_cpu() && !unseen.empty()) add_seen(made);
    return made;
  }

  void add_seen(Networks& made) const {
    std::vector<int64_t> seen, place(size_t(graph_.genes()), -1);
    for (int64_t gene = 0; gene < graph_.genes(); ++gene) {
      if (std::ranges::binary_search(made.unseen, gene)) continue;
      place[size_t(gene)] = int64_t(seen.size());
      seen.push_back(gene);
    }
    made.seen = at::tensor(seen, at::kLong);
    made.place = at::tensor(place, at::kLong);
    std::tie(made.between, made.between_weights) = made.graph.between(seen, made.weights);
    const auto ones = hidden_genes()->always().to(table_.scalar_type());  // [N, 1]
    made.share = made.graph.wild_type_sums(ones, made.weights).index_select(1, made.seen);
  }

  GeneGraph graph_;
  double shrink_;
  int64_t similar_;
  at::Tensor weights_;  // [E] of the edges, or undefined
  std::vector<std::string> feature_names_;
  at::Tensor table_, given_;  // [N, H + L] learned, [N, d] given or undefined
  at::Tensor own_, heard_;    // scalar, [G]
  std::shared_ptr<Dense> from_features_;
  std::shared_ptr<ProductHead> head_;
  std::optional<Networks> networks_;
  bool keeps_wild_type_ = false;
  at::Tensor kept_;  // [N, H + L]
};

const bool known = add_model<Factors>("factors", kDefaults);

}  // namespace lacuna::factors_model
