#include "lacuna/nn/model.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lacuna/run/plugin/plugin.h"

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// In a function, so that it exists before the first model of any file is added.
std::map<std::string, ModelMaker>& makers() {
  static std::map<std::string, ModelMaker> makers;
  return makers;
}

}  // namespace

bool add_model(const std::string& name, const char* defaults, ModelMaker maker,
               const ModelHeaders& headers) {
  if (headers != kModelHeaders) {
    refuse_model(fmt::format(
        "its model '{}' was built for torch {}.{} and another Lacuna, this is torch {}.{}; build "
        "it again (docs/add-a-model.md)",
        name, headers.torch_major, headers.torch_minor, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR));
    return false;
  }
  if (!add_model_settings(name, defaults)) return false;
  makers()[name] = maker;
  return true;
}

at::Tensor Model::drop_out(const at::Tensor& x, double p, const ModelInput& input) const {
  if (!is_training() || p == 0) return x;
  std::vector<int64_t> sizes = x.sizes().vec();
  if (input.all > 0) sizes[0] = input.all;
  const at::Tensor kept = at::empty(sizes, x.options()).bernoulli_(1 - p);
  if (p < 1) kept.div_(1 - p);
  return x * kept.narrow(0, input.first, x.size(0));
}

at::Tensor Model::total_loss(const at::Tensor& prediction_loss, int64_t) { return prediction_loss; }

void Model::hide_genes(const std::vector<int64_t>& unseen) {
  if (hidden_) return hidden_->set_unseen(unseen);
  const at::Tensor rows = gene_rows();
  if (!rows.defined())
    throw Error(
        "train.hide hides rows that a model learns of each gene, and this model learns none; set "
        "it to 0");
  hidden_ = register_module("hidden", std::make_shared<HiddenGenes>(rows, unseen));
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<Model> make_model(YAML::Node settings, const GeneGraph& graph, int64_t label_count,
                                  uint64_t seed) {
  complete_model(settings);
  at::manual_seed(seed);
  auto model = makers().at(settings["name"].as<std::string>())(settings, graph, label_count);
  model->to(graph.device());
  return model;
}

}  // namespace lacuna
