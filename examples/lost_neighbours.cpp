// A model of one's own, in one file (docs/add-a-model.md): what genes lose when neighbours go.
//
//   h       gelu(mean over a gene's kept in-neighbours of their vectors), mean over all genes and
//           networks
//   score   Linear(h of the wild type - h of the sample)
#include <ATen/ATen.h>

#include "lacuna/core/text/settings.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/model.h"

namespace lacuna::lost_neighbours {

constexpr const char* kDefaults = R"(
name: lost_neighbours
width: 32
)";

class LostNeighbours : public Model {
 public:
  LostNeighbours(YAML::Node node, const GeneGraph& graph, int64_t label_count) : graph_(graph) {
    const int64_t width = Settings(node, "model").count("width", 1);
    table_ = register_parameter("table", at::randn({graph.genes(), width}) * 0.1);
    score_ = register_module("score", std::make_shared<Dense>(width, label_count, kScoreStd));
  }

  bool reads_masks() const override { return false; }  // mean() sums from the removed genes

  at::Tensor gene_rows() const override { return table_; }  // which visible_rows() hides some of

  at::Tensor forward(const ModelInput& input) override {
    const int64_t batch = input.batch();
    const auto h = pool(with_wild_type(input));  // [B + 1, H], the wild type last
    return score_->forward(h.narrow(0, batch, 1) - h.narrow(0, 0, batch));
  }

  std::map<std::string, at::Tensor> embeddings(const ModelInput& input) override {
    return {{"genes", visible_rows()}, {"pooled", pool(input)}};
  }

 private:
  at::Tensor pool(const ModelInput& input) {
    const auto x = cast(visible_rows()).unsqueeze(1).expand({-1, input.batch(), -1});  // [N, B, H]
    const auto around = wide(at::gelu(graph_.mean(x.contiguous(), input)));  // [T, N, B, H]
    return around.mean(at::IntArrayRef({0, 1}));
  }

  GeneGraph graph_;
  at::Tensor table_;  // [N, H]
  std::shared_ptr<Dense> score_;
};

const bool known = add_model<LostNeighbours>("lost_neighbours", kDefaults);

}  // namespace lacuna::lost_neighbours
