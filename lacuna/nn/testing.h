// A small graph, samples of all kinds and models away from their first weights, for the tests of
// models. Not a part of the library.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/nn/model.h"

namespace lacuna::testing {

inline constexpr int64_t kGenes = 40;  // of a tiny graph
inline constexpr int64_t kWidth = 16;

inline GeneGraph tiny_graph(uint64_t seed) {
  HeteroGraph graph = generate_graph(GraphSize::tiny, seed);
  Random random(seed, 1);
  std::vector<float> features(size_t(kGenes * 3));
  for (float& value : features) value = float(random.normal());
  graph.add_feature("gene", "given", Array::from(features, {uint64_t(kGenes), 3}));
  return GeneGraph(graph, at::kCPU);
}

using SampleSets = std::vector<std::vector<int32_t>>;

inline ModelInput to_input(const SampleSets& samples) {
  std::vector<int32_t> removed, ptr = {0};
  for (const auto& sample : samples) {
    removed.insert(removed.end(), sample.begin(), sample.end());
    ptr.push_back(int32_t(removed.size()));
  }
  return make_input(removed, ptr);
}

// Samples that remove nobody, one gene, one gene twice, all genes; then sixteen usual ones, so that
// the rows of a pairwise merge do not fit one block.
inline SampleSets odd_and_usual(uint64_t seed) {
  std::vector<int32_t> everyone;
  for (int32_t gene = 0; gene < kGenes; ++gene) everyone.push_back(gene);
  SampleSets samples = {{}, {5}, {7, 3, 7}, everyone};
  Random random(seed, 2);
  const auto gene = [&] { return int32_t(random.below(kGenes)); };
  for (int i = 0; i < 16; ++i) samples.push_back({gene(), gene(), gene()});
  return samples;
}

// In f64, every parameter moved away from its special first value (0, 1, 0.01).
inline std::shared_ptr<Model> shaken(const std::string& settings, const GeneGraph& graph,
                                     uint64_t seed, int64_t labels = 1) {
  const auto model = make_model(YAML::Load(settings), graph, labels, seed);
  model->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.1);
  return model;
}

inline double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / (1e-6 + b.norm().item<double>());
}

// Predictions, then the gradient of every parameter.
inline std::vector<at::Tensor> compute(Model& model, const ModelInput& input) {
  model.zero_grad();
  const auto prediction = model.forward(input);
  const auto target = at::linspace(-1, 1, prediction.numel(), prediction.options());
  const auto loss = (prediction - target.view_as(prediction)).square().mean();
  model.total_loss(loss, /*epoch=*/5).backward();
  std::vector<at::Tensor> results = {prediction.detach()};
  for (const auto& parameter : model.parameters())
    results.push_back(parameter.grad().clone());  // throws where a parameter is not used
  return results;
}

}  // namespace lacuna::testing
