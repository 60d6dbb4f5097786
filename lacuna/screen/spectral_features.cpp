#include "lacuna/screen/spectral_features.h"

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/graph/spectral.h"

namespace lacuna {
namespace {

std::span<const float> weights_of(const EdgeType& type) {
  for (const EdgeValue& value : type.values)
    if (type.values.size() == 1 || value.name == "weight") return value.values.as<float>();
  if (!type.values.empty())
    throw Error("it has {} values and none is called 'weight'", type.values.size());
  return {};
}

}  // namespace

Array spectral_features(const HeteroGraph& graph, uint32_t count, Progress& progress) {
  const auto types = graph.gene_edges();
  if (types.empty()) throw Error("the screen has no gene networks to compute features from");
  const uint64_t genes = graph.genes().size(), columns = types.size() * count;
  std::vector<float> features(genes * columns);
  progress.begin("computing features", types.size(), "networks");
  for (size_t t = 0; t < types.size(); ++t) {
    SingularPairs pairs;
    try {
      const auto sources = types[t]->sources(), targets = types[t]->targets();
      pairs =
          largest_singular_pairs({uint32_t(genes), sources, targets, weights_of(*types[t])}, count);
    } catch (const Error& error) {
      throw Error("network '{}': {}", types[t]->name, error.what());
    }
    for (uint64_t k = 0; k < count; ++k) {
      const double scale = std::sqrt(double(genes) * pairs.values[k]);
      for (uint64_t gene = 0; gene < genes; ++gene)
        features[gene * columns + t * count + k] = float(scale * pairs.vectors[k * genes + gene]);
    }
    progress.advance(t + 1);
  }
  progress.end();
  return Array::from(std::move(features), {genes, columns});
}

}  // namespace lacuna
