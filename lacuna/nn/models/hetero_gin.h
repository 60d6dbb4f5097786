// HeteroGin: message passing over every gene network at once, with the removed genes taken out of
// each sample's copy.
//
//   embedding (and given features) -> preprocessor -> L layers -> pool over kept genes -> global
//   head; wild-type states of the removed genes -> local head; both -> output
//   layer: for each graph g   u = sum over kept in-neighbours + (1 + eps_g) x
//                             y_g = gelu(norm_g(four Linears with GELU between))
//          then a merge over the graphs (merge.h)
//
// The samples of a batch and the wild type stand side by side: [N, B + 1, H]. What all samples
// share is computed once: the preprocessor, and the first layer's sums (aggregate_shared).
#pragma once

#include <memory>
#include <vector>

#include "lacuna/nn/heads.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/merge.h"
#include "lacuna/nn/metabolism.h"
#include "lacuna/nn/model.h"

namespace lacuna {

class HeteroGin : public Model {
 public:
  // See kDefaults in hetero_gin.cpp for the settings.
  HeteroGin(YAML::Node settings, const GeneGraph& graph, int64_t label_count);
  at::Tensor forward(const ModelInput& input) override;
  bool reads_masks() const override { return layers_.size() > 1 || !savings_; }
  bool reads_features() const override { return from_features_ != nullptr; }
  bool reads_metabolism() const override { return layers_[0]->metabolism != nullptr; }
  std::map<std::string, at::Tensor> embeddings(const ModelInput& input) override;

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

  void add_preprocessor(const std::string& features);
  void add_layers(int64_t count, const std::string& merge, bool metabolism);
  void add_heads(int64_t label_count);
  at::Tensor preprocess();  // [N, H]
  // shared [N, H]: the preprocessed rows, from which all samples start -> [N, B, H]
  at::Tensor encode(const at::Tensor& shared, const ModelInput& samples);
  States encode_with_wild_type(const ModelInput& input);
  at::Tensor pool(const States& states, const ModelInput& input);  // [B + 1, H]

  GeneGraph graph_;
  int64_t width_;
  double dropout_;
  bool savings_;
  NormKind norm_kind_;
  Output output_;
  at::Tensor table_;  // [N, H], or undefined
  std::shared_ptr<Dense> from_features_;
  std::vector<std::shared_ptr<Dense>> pre_;
  std::shared_ptr<Norm> pre_norm_;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<GlobalHead> global_;
  std::shared_ptr<LocalHead> local_;
  std::shared_ptr<Dense> gate_hidden_, gate_;
};

}  // namespace lacuna
