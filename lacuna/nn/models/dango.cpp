// Dango, a published baseline: every network embedded on its own, on the wild type only, and the
// removed genes compared by attention.
//
//   per network   h1 = relu(SAGE1(table)), h2 = relu(SAGE2(h1)),
//                 SAGE(x) = W_l mean(in-neighbours of x) + b + W_r x
//   meta          softmax over networks of a shared scorer (Linear, relu, Linear), weighted sum of
//                 h2
//   prediction    the local head (heads.h, 4 heads) on the meta embeddings of the removed genes
//
// Loss: alpha * reconstruction + (1 - alpha) * loss of the predictions (its config takes log-cosh);
// alpha goes from 1 to 0.5 over the first 10 epochs. Reconstruction: Linear(H, N) of every h2 row v
// should give row v of the adjacency (1 at place u where there is an edge u -> v), squared error,
// weight 1 on edges and `zero_weight` elsewhere, mean over all N * N places and over networks.
//
// The N * N places are never formed: the sum of squares over all of them is the sum of the
// elementwise product of two (H + 1) x (H + 1) matrices, corrected at the few places with an edge.
// Dango computes in the dtype of its parameters even when asked for bf16: it embeds the wild type
// once a step, which is little work.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/nn/heads.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/model.h"
#include "lacuna/torch/stop_point.h"

namespace lacuna::dango {

constexpr const char* kDefaults = R"(
name: dango
width: 64
zero_weight: 0.1      # of places without an edge in the reconstruction
ramp_epochs: 10       # epochs over which the reconstruction's share of the loss falls from 1 to 0.5
)";
constexpr int64_t kLocalHeads = 4;

class Dango : public Model {
 public:
  Dango(YAML::Node node, const GeneGraph& graph, int64_t label_count) : graph_(graph) {
    const Settings settings(node, "model");
    const int64_t width = settings.count("width", 1, kMostWidth), networks = graph.type_count();
    zero_weight_ = settings.number("zero_weight", 0);
    ramp_epochs_ = settings.count("ramp_epochs", 1);
    table_ = register_parameter("table", at::randn({graph.genes(), width}) * 0.02);
    sage1_ = register_module("sage1", std::make_shared<Sage>(networks, width));
    sage2_ = register_module("sage2", std::make_shared<Sage>(networks, width));
    rows_ = register_module("rows", std::make_shared<GraphDense>(networks, width, graph.genes()));
    score_hidden_ = register_module("score_hidden", std::make_shared<Dense>(width, width));
    score_ = register_module("score", std::make_shared<Dense>(width, 1, kScoreStd));
    local_ = register_module("local", std::make_shared<LocalHead>(width, kLocalHeads, label_count));
    for (int64_t t = 0; t < networks; ++t) edges_.push_back(graph.edges(t));
  }

  bool is_static() const override { return false; }
  bool reads_masks() const override { return false; }
  bool reads_features() const override { return false; }
  bool reads_metabolism() const override { return false; }
  at::Tensor gene_rows() const override { return table_; }

  at::Tensor forward(const ModelInput& input) override {
    last_ = embed();
    const Scope scope("heads");
    return local_->forward(meta(last_), input.sets);
  }

  at::Tensor total_loss(const at::Tensor& prediction_loss, int64_t epoch) override {
    LACUNA_ASSERT(last_.defined());
    const double alpha = 1 - 0.5 * std::min(1.0, double(epoch) / double(ramp_epochs_));
    return alpha * reconstruction(last_) + (1 - alpha) * prediction_loss;
  }

  std::map<std::string, at::Tensor> embeddings(const ModelInput&) override {
    return {{"genes", meta(embed())}};
  }

 private:
  struct Sage : torch::nn::Module {
    Sage(int64_t networks, int64_t width) {
      left = register_module("left", std::make_shared<GraphDense>(networks, width, width));
      right = register_parameter(
          "right", at::randn({networks, width, width}) * std::sqrt(2.0 / double(width)));
    }

    // own, neighbours [T, N, H] -> [T, N, H]
    at::Tensor forward(const at::Tensor& own, const at::Tensor& neighbours) const {
      return at::relu(at::baddbmm(left->forward(neighbours), own, right));
    }

    std::shared_ptr<GraphDense> left;  // W_l, b
    at::Tensor right;                  // W_r [T, H, H]
  };

  // [T, N, H]
  at::Tensor embed() {
    const int64_t networks = graph_.type_count();
    const at::Tensor rows = visible_rows();  // [N, H]
    const ModelInput nobody = wild_type(rows);
    const auto first = graph_.mean(rows.unsqueeze(1), nobody).squeeze(2);  // [T, N, H]
    const auto h1 = sage1_->forward(rows.unsqueeze(0).expand({networks, -1, -1}), first);
    // Every network now has states of its own. They stand side by side as if they were samples, and
    // of the sums [T, N, T, H] each network takes its own.
    ModelInput side_by_side = nobody;
    side_by_side.ptr = at::zeros({networks + 1}, nobody.ptr.options());
    const auto all = graph_.mean(h1.transpose(0, 1).contiguous(), side_by_side);
    const auto second = all.diagonal(0, 0, 2).permute({2, 0, 1}).contiguous();  // [T, N, H]
    return sage2_->forward(h1, second);
  }

  // h [T, N, H] -> [N, H]
  at::Tensor meta(const at::Tensor& h) const {
    const auto scores = score_->forward(at::relu(score_hidden_->forward(h)));  // [T, N, 1]
    return (at::softmax(scores, 0) * h).sum(0);
  }

  // h [T, N, H] -> scalar
  at::Tensor reconstruction(const at::Tensor& h) const {
    // With a 1 appended to every state and the bias to every weight, place (v, u) is a_v . b_u, and
    // the sum of its square over all places is the sum of (A^T A) * (B^T B), elementwise.
    const auto a = at::cat({h, at::ones_like(h.narrow(2, 0, 1))}, 2);  // [T, N, H + 1]
    const auto b = at::cat({rows_->weight, rows_->bias}, 1).transpose(1, 2).contiguous();
    auto total =
        (at::bmm(a.transpose(1, 2), a) * at::bmm(b.transpose(1, 2), b)).sum() * zero_weight_;
    for (size_t t = 0; t < edges_.size(); ++t) {
      stop_point(total);
      const auto sources = edges_[t][0], targets = edges_[t][1];
      const auto place =
          (a[int64_t(t)].index_select(0, targets) * b[int64_t(t)].index_select(0, sources))
              .sum(1);  // [E]
      total = total + (place - 1).square().sum() - zero_weight_ * place.square().sum();
    }
    const double genes = double(graph_.genes());
    return total / (genes * genes * double(edges_.size()));
  }

  GeneGraph graph_;
  double zero_weight_;
  int64_t ramp_epochs_;
  at::Tensor table_;  // [N, H]
  std::shared_ptr<Sage> sage1_, sage2_;
  std::shared_ptr<GraphDense> rows_;  // [T, H, N]
  std::shared_ptr<Dense> score_hidden_, score_;
  std::shared_ptr<LocalHead> local_;
  std::vector<at::Tensor> edges_;  // [T] of [2, E]
  at::Tensor last_;                // [T, N, H] of the last forward()
};

const bool known = add_model<Dango>("dango", kDefaults);

}  // namespace lacuna::dango
