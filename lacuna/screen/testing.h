// For tests only: small screens to write, open and damage.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

inline Names numbered_names(const std::string& stem, uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back(stem + std::to_string(i));
  return Names(std::move(names));
}

// Genes, two gene-gene edge types, one with values; a feature; reactions and their edges.
inline HeteroGraph small_graph(uint64_t seed, uint32_t genes = 40) {
  Random random(seed);
  HeteroGraph graph;
  graph.add_nodes("gene", numbered_names("G", genes));
  graph.add_nodes("reaction", numbered_names("R", 5));
  const auto edges = [&](uint64_t count, uint32_t sources, uint32_t targets) {
    std::vector<uint32_t> pairs(2 * count);
    for (uint64_t e = 0; e < count; ++e) {
      pairs[e] = uint32_t(random.below(sources));
      pairs[count + e] = uint32_t(random.below(targets));
    }
    return Array::from(std::move(pairs), {2, count});
  };
  std::vector<float> weights(90), feature(genes * 3);
  for (auto& weight : weights) weight = float(random.normal());
  for (auto& value : feature) value = float(random.normal());
  graph.add_feature("gene", "embedding", Array::from(std::move(feature), {genes, 3}));
  graph.add_edges("gene", "physical", "gene", edges(120, genes, genes));
  graph.add_edges("gene", "weighted", "gene", edges(90, genes, genes),
                  {{"weight", Array::from(std::move(weights))}});
  graph.add_edges("gene", "none", "gene", edges(0, genes, genes));
  graph.add_edges("gene", "catalyses", "reaction", edges(8, genes, 5));
  return graph;
}

// Samples of zero to four genes, two labels (some missing), a column of numbers (some missing), a
// column of categories (some unknown) and one of whole numbers.
inline Samples small_samples(uint64_t seed, uint64_t count, uint32_t genes = 40) {
  Random random(seed, 1);
  constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
  SampleBuilder builder(genes, {"fitness", "interaction"});
  std::vector<float> sd;
  std::vector<uint32_t> screen;
  std::vector<int32_t> plate;
  for (uint64_t s = 0; s < count; ++s) {
    std::vector<uint32_t> removed(random.below(5));
    for (auto& gene : removed) gene = uint32_t(random.below(genes));
    const float labels[] = {float(random.normal()),
                            random.below(4) ? float(random.normal()) : kMissing};
    builder.add(removed, labels);
    sd.push_back(random.below(5) ? float(random.uniform()) : kMissing);
    screen.push_back(uint32_t(random.below(4)));  // 3 is unknown
    plate.push_back(int32_t(random.below(9)) - 4);
  }
  Samples samples = builder.finish();
  samples.columns.push_back({"sd", Array::from(std::move(sd)), {}});
  samples.columns.push_back(make_category_column("screen", screen, {"first", "second", "third"}));
  samples.columns.push_back({"plate", Array::from(std::move(plate)), {}});
  return samples;
}

inline Split thirds_split(uint64_t count, std::string name = "thirds") {
  std::vector<uint8_t> parts;
  constexpr uint8_t kCycle[] = {0, 1, 2, 255};
  for (uint64_t s = 0; s < count; ++s) parts.push_back(kCycle[s % 4]);
  return {std::move(name), Array::from(std::move(parts)), {{"by", "test"}}};
}

}  // namespace lacuna
