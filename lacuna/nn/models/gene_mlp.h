// A small MLP on gene embeddings, without any graph: the baseline that shows what a graph adds.
//
//   sum over the removed genes of their embedding [H] -> two Linears with GELU -> Linear -> [L]
#pragma once

#include <memory>

#include "lacuna/nn/layers.h"
#include "lacuna/nn/model.h"

namespace lacuna {

class GeneMlp : public Model {
 public:
  GeneMlp(YAML::Node settings, const GeneGraph& graph, int64_t label_count);
  at::Tensor forward(const ModelInput& input) override;
  bool reads_masks() const override { return false; }
  bool reads_features() const override { return false; }
  bool reads_metabolism() const override { return false; }
  std::map<std::string, at::Tensor> embeddings(const ModelInput& input) override;

 private:
  at::Tensor pool(const ModelInput& input);  // [B, H]

  double dropout_;
  at::Tensor table_;  // [N, H]
  std::shared_ptr<Dense> first_, second_, score_;
};

}  // namespace lacuna
