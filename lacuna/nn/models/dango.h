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
// The N * N places are never formed: the sum of squares over all of them is the elementwise product
// of two H + 1 by H + 1 matrices, and the edges, which are few, correct it. It computes in the
// dtype of its parameters, bf16 or not: the wild type alone, once a step, is little work.
#pragma once

#include <memory>

#include "lacuna/nn/heads.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/model.h"

namespace lacuna {

class Dango : public Model {
 public:
  Dango(YAML::Node settings, const GeneGraph& graph, int64_t label_count);
  at::Tensor forward(const ModelInput& input) override;
  at::Tensor total_loss(const at::Tensor& prediction_loss, int64_t epoch) override;
  bool is_static() const override { return false; }
  bool reads_masks() const override { return false; }
  bool reads_features() const override { return false; }
  bool reads_metabolism() const override { return false; }
  std::map<std::string, at::Tensor> embeddings(const ModelInput& input) override;

 private:
  struct Sage : torch::nn::Module {
    Sage(int64_t networks, int64_t width);
    at::Tensor forward(const at::Tensor& own, const at::Tensor& neighbours) const;  // [T, N, H]
    std::shared_ptr<GraphDense> left;                                               // W_l, b
    at::Tensor right;                                                               // W_r [T, H, H]
  };

  at::Tensor embed();                                    // [T, N, H]
  at::Tensor meta(const at::Tensor& h) const;            // [N, H]
  at::Tensor reconstruction(const at::Tensor& h) const;  // scalar

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

}  // namespace lacuna
