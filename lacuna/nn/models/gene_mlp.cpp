// A small MLP on gene embeddings, without any graph: the baseline that shows what a graph adds.
//
//   sum over the removed genes of their embedding [H] -> two Linears with GELU -> Linear -> [L]
#include <ATen/ATen.h>

#include "lacuna/core/scope.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/model.h"

namespace lacuna::gene_mlp {

constexpr const char* kDefaults = R"(
name: mlp
width: 64
dropout: 0.1
)";

class GeneMlp : public Model {
 public:
  GeneMlp(YAML::Node node, const GeneGraph& graph, int64_t label_count) {
    const Settings settings(node, "model");
    const int64_t width = settings.count("width", 1, kMostWidth);
    dropout_ = settings.number("dropout", 0, 1);
    table_ = register_parameter("table", at::randn({graph.genes(), width}) * 0.1);
    first_ = register_module("first", std::make_shared<Dense>(width, width));
    second_ = register_module("second", std::make_shared<Dense>(width, width));
    score_ = register_module("score", std::make_shared<Dense>(width, label_count, kScoreStd));
  }

  bool reads_masks() const override { return false; }
  bool reads_features() const override { return false; }
  bool reads_metabolism() const override { return false; }
  at::Tensor gene_rows() const override { return table_; }

  at::Tensor forward(const ModelInput& input) override {
    const Scope scope("mlp");
    const auto dropout = [&](const at::Tensor& x) { return drop_out(x, dropout_, input); };
    const auto h = dropout(at::gelu(first_->forward(cast(pool(input)))));
    return wide(score_->forward(dropout(at::gelu(second_->forward(h)))));
  }

  std::map<std::string, at::Tensor> embeddings(const ModelInput& input) override {
    return {{"genes", visible_rows()}, {"pooled", pool(input)}};
  }

 private:
  // [B, H]
  at::Tensor pool(const ModelInput& input) {
    const auto rows =
        visible_rows().index_select(0, input.sets.clamp_min(0).reshape(-1));     // [B * k, H]
    const auto present = input.sets.ge(0).unsqueeze(-1).to(rows.scalar_type());  // [B, k, 1]
    return (rows.reshape({input.sets.size(0), input.sets.size(1), -1}) * present).sum(1);
  }

  double dropout_;
  at::Tensor table_;  // [N, H]
  std::shared_ptr<Dense> first_, second_, score_;
};

const bool known = add_model<GeneMlp>("mlp", kDefaults);

}  // namespace lacuna::gene_mlp
