#include "lacuna/nn/model.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "lacuna/core/error.h"
#include "lacuna/nn/dango.h"
#include "lacuna/nn/gene_mlp.h"
#include "lacuna/nn/hetero_gin.h"

namespace lacuna {
namespace {

using Maker = std::shared_ptr<Model> (*)(YAML::Node, const GeneGraph&, int64_t label_count);

template <class Kind>
std::shared_ptr<Model> make(YAML::Node settings, const GeneGraph& graph, int64_t label_count) {
  return std::make_shared<Kind>(settings, graph, label_count);
}

// The models that there are: a line each.
const std::map<std::string, Maker> kModels = {
    {"dango", make<Dango>},
    {"hetero_gin", make<HeteroGin>},
    {"mlp", make<GeneMlp>},
};

}  // namespace

at::Tensor Model::total_loss(const at::Tensor& prediction_loss, int64_t) { return prediction_loss; }

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<Model> make_model(YAML::Node settings, const GeneGraph& graph, int64_t label_count,
                                  uint64_t seed) {
  if (!settings["name"])
    throw Error("the model has no name; there are: {}", fmt::join(model_names(), ", "));
  const auto name = settings["name"].as<std::string>();
  const auto found = kModels.find(name);
  if (found == kModels.end())
    throw Error("there is no model '{}'; there are: {}", name, fmt::join(model_names(), ", "));
  at::manual_seed(seed);
  auto model = found->second(settings, graph, label_count);
  model->to(graph.device());
  return model;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : kModels) names.push_back(name);
  return names;
}

}  // namespace lacuna
