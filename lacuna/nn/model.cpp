#include "lacuna/nn/model.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "lacuna/core/error.h"
#include "lacuna/nn/settings.h"

namespace lacuna {
namespace {

struct Known {
  const char* defaults;
  ModelMaker maker;
};

// In a function, so that it is there before the first model of any file asks for it.
std::map<std::string, Known>& known_models() {
  static std::map<std::string, Known> models;
  return models;
}

const Known& find_model(const std::string& name) {
  const auto found = known_models().find(name);
  if (found == known_models().end())
    throw Error("there is no model '{}'; there are: {}", name, fmt::join(model_names(), ", "));
  return found->second;
}

const Known& find_model(const YAML::Node& settings) {
  if (!settings["name"])
    throw Error("the model has no name; there are: {}", fmt::join(model_names(), ", "));
  return find_model(settings["name"].as<std::string>());
}

}  // namespace

bool add_model(const std::string& name, const char* defaults, ModelMaker maker) {
  const bool is_new = known_models().emplace(name, Known{defaults, maker}).second;
  LACUNA_ASSERT(is_new);
  return true;
}

at::Tensor Model::total_loss(const at::Tensor& prediction_loss, int64_t) { return prediction_loss; }

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<Model> make_model(YAML::Node settings, const GeneGraph& graph, int64_t label_count,
                                  uint64_t seed) {
  complete_model(settings);
  at::manual_seed(seed);
  auto model = find_model(settings).maker(settings, graph, label_count);
  model->to(graph.device());
  return model;
}

void complete_model(YAML::Node settings) {
  complete(settings, find_model(settings).defaults, "model");
}

const char* model_defaults(const std::string& name) { return find_model(name).defaults; }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : known_models()) names.push_back(name);
  return names;
}

}  // namespace lacuna
