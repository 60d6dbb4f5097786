#include "lacuna/run/evaluation/network/network_baseline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/measured_samples.h"
#include "lacuna/run/evaluation/network/column_ridge.h"
#include "lacuna/run/evaluation/network/pair_features.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

constexpr uint32_t kNodes = 24;
using Matrix = std::vector<std::vector<double>>;  // [N, N]

Matrix zeros() { return Matrix(kNodes, std::vector<double>(kNodes, 0.0)); }

// Nought to four genes of the first 20 in training, of all 24 beyond.
Indicators random_sets(uint64_t seed, uint64_t training, uint64_t others) {
  Random random(seed, 3);
  Indicators sets;
  sets.columns = kNodes;
  for (uint64_t s = 0; s < training + others; ++s) {
    std::set<uint32_t> genes;
    for (uint64_t i = random.below(5); i > 0; --i)
      genes.insert(uint32_t(random.below(s < training ? 20 : kNodes)));
    sets.column.insert(sets.column.end(), genes.begin(), genes.end());
    sets.ptr.push_back(sets.column.size());
  }
  return sets;
}

TrainingResiduals random_residuals(uint64_t seed, const Indicators& sets, uint64_t training) {
  Random random(seed, 4);
  TrainingResiduals residuals;
  residuals.is_seen.assign(kNodes, false);
  for (uint64_t s = 0; s < training; ++s) {
    residuals.residual.push_back(random.normal());
    residuals.weight.push_back(0.5 + random.uniform());
    for (const uint32_t gene : sets.of(s)) residuals.is_seen[gene] = true;
  }
  for (uint32_t gene = 0; gene < kNodes; ++gene)
    residuals.effect.push_back(residuals.is_seen[gene] ? random.normal() : 0.0);
  return residuals;
}

// A network as dense matrices, straight from the edges.
struct DenseNetwork {
  Matrix a = zeros(), l = zeros(), product = zeros(), cosine = zeros();
  std::vector<double> degree = std::vector<double>(kNodes, 0.0);
  std::vector<double> links = std::vector<double>(kNodes, 0.0);

  explicit DenseNetwork(const EdgeType& edges) {
    const auto sources = edges.sources(), targets = edges.targets();
    double largest = 0;
    for (size_t e = 0; e < sources.size(); ++e) {
      const double w = edges.values.empty() ? 1 : double(edges.values[0].values.as<float>()[e]);
      if (sources[e] == targets[e]) continue;
      for (auto [i, j] : {std::pair(sources[e], targets[e]), std::pair(targets[e], sources[e])})
        a[i][j] = std::max(a[i][j], w);
      largest = std::max(largest, w);
    }
    for (uint32_t i = 0; i < kNodes; ++i)
      for (uint32_t j = 0; j < kNodes; ++j) {
        if (a[i][j] > 0) a[i][j] /= largest;
        degree[i] += a[i][j];
        links[i] += a[i][j] > 0;
      }
    for (uint32_t i = 0; i < kNodes; ++i)
      for (uint32_t j = 0; j < kNodes; ++j)
        if (a[i][j] > 0) l[i][j] = a[i][j] / std::sqrt(degree[i] * degree[j]);
    for (uint32_t i = 0; i < kNodes; ++i)
      for (uint32_t j = 0; j < kNodes; ++j)
        for (uint32_t m = 0; m < kNodes; ++m) product[i][j] += l[i][m] * l[m][j];
    for (uint32_t i = 0; i < kNodes; ++i)
      for (uint32_t j = 0; j < kNodes; ++j)
        cosine[i][j] =
            product[i][j] / ((std::sqrt(product[i][i]) + 1e-9) * (std::sqrt(product[j][j]) + 1e-9));
  }
};

// from(a, b) of pair_features.h, over all training samples that share no gene with the sample but b
double plain_from(const DenseNetwork& network, const Indicators& sets,
                  const TrainingResiduals& training, uint64_t sample, uint32_t a, uint32_t b) {
  const auto has = [&](uint64_t s, uint32_t gene) {
    return std::count(sets.of(s).begin(), sets.of(s).end(), gene) > 0;
  };
  double sum = 0, weight = 0;
  for (uint64_t s = 0; s < training.residual.size(); ++s)
    for (const uint32_t n : sets.of(s)) {
      if (!has(s, b) || n == b || has(sample, n)) continue;
      const double like = std::pow(std::max(0.0, network.cosine[a][n]), 2);
      sum += like * training.weight[s] * training.residual[s];
      weight += like * training.weight[s];
    }
  return sum / (weight + 0.05);
}

std::vector<double> plain_columns(const DenseNetwork& network, const Indicators& sets,
                                  const TrainingResiduals& training, uint64_t sample) {
  std::vector<double> sums(kColumnsOfNetwork, 0.0);
  const auto genes = sets.of(sample);
  double pairs = 0;
  for (const uint32_t a : genes)
    for (const uint32_t b : genes) {
      if (a >= b) continue;
      ++pairs;
      const double log_a = std::log1p(network.links[a]), log_b = std::log1p(network.links[b]);
      const double values[] = {network.a[a][b],
                               network.l[a][b],
                               network.product[a][b],
                               network.cosine[a][b],
                               network.degree[a] * network.degree[b],
                               log_a + log_b,
                               log_a * log_b,
                               plain_from(network, sets, training, sample, a, b) +
                                   plain_from(network, sets, training, sample, b, a)};
      for (size_t c = 0; c < sums.size(); ++c) sums[c] += values[c];
    }
  for (double& sum : sums) sum = pairs > 0 ? sum / pairs : 0;
  return sums;
}

TEST(NetworkBaseline, ColumnsAreThoseOfDenseMatrices) {
  const uint64_t seed = test_seed();
  const HeteroGraph graph = small_graph(seed, kNodes);
  const Indicators sets = random_sets(seed, 80, 40);
  const TrainingResiduals training = random_residuals(seed, sets, 80);
  const auto networks = gene_networks(graph);
  ASSERT_EQ(networks.size(), 3u);  // one of them without edges
  const PairFeatures found = pair_features(networks, sets, training, Progress::none());
  const auto types = graph.gene_edges();
  std::vector<double> effects(kNodes, 0.0);
  for (size_t k = 0; k < types.size(); ++k) {
    const DenseNetwork network(*types[k]);
    for (uint64_t s = 0; s < sets.size(); ++s) {
      const auto expected = plain_columns(network, sets, training, s);
      for (size_t c = 0; c < kColumnsOfNetwork; ++c)
        EXPECT_NEAR(found.values[s * found.columns + k * kColumnsOfNetwork + c], expected[c],
                    1e-5 * (1 + std::abs(expected[c])))
            << types[k]->name << ", sample " << s << ", column " << c;
    }
    for (uint32_t a = 20; a < kNodes; ++a) {
      double sum = 0, weight = 0.05;
      for (uint32_t n = 0; n < kNodes; ++n) {
        if (!training.is_seen[n]) continue;
        const double like = std::pow(std::max(0.0, network.cosine[a][n]), 2);
        sum += like * training.effect[n];
        weight += like;
      }
      effects[a] += sum / weight / double(types.size());
    }
  }
  for (uint32_t a = 0; a < kNodes; ++a) EXPECT_NEAR(found.neighbours_effect[a], effects[a], 1e-9);
}

TEST(NetworkBaseline, ColumnsAreTheSameBitsForAnyNumberOfThreads) {
  const uint64_t seed = test_seed();
  const Indicators sets = random_sets(seed, 80, 40);
  const TrainingResiduals training = random_residuals(seed, sets, 80);
  const auto networks = gene_networks(small_graph(seed, kNodes));
  const auto one = pair_features(networks, sets, training, Progress::none(), 1);
  const auto three = pair_features(networks, sets, training, Progress::none(), 3);
  EXPECT_EQ(one.values, three.values);
  EXPECT_EQ(one.neighbours_effect, three.neighbours_effect);
}

TEST(NetworkBaseline, NoTrainingSampleSeesItsOwnLabel) {
  const uint64_t seed = test_seed();
  const Indicators sets = random_sets(seed, 60, 0);
  TrainingResiduals training = random_residuals(seed, sets, 60);
  const auto networks = gene_networks(small_graph(seed, kNodes));
  const auto before = pair_features(networks, sets, training, Progress::none());
  bool others_changed = false;
  for (uint64_t s = 0; s < sets.size(); ++s) {
    const double kept = training.residual[s];
    training.residual[s] = kept + 3;
    const auto after = pair_features(networks, sets, training, Progress::none());
    training.residual[s] = kept;
    for (size_t c = 0; c < before.columns; ++c)
      // what is added and taken away again leaves rounding
      EXPECT_NEAR(after.values[s * before.columns + c], before.values[s * before.columns + c],
                  1e-5);
    for (size_t i = 0; i < before.values.size(); ++i)
      others_changed = others_changed || std::abs(after.values[i] - before.values[i]) > 1e-3;
  }
  EXPECT_TRUE(others_changed);
}

TEST(ColumnRidge, WholeWeightsCountAsCopiesAndTheGradientIsZero) {
  Random random(test_seed());
  constexpr size_t kColumns = 4;  // the last has no spread
  std::vector<float> x, copies;
  std::vector<double> y, weights, copied_y;
  for (size_t s = 0; s < 50; ++s) {
    const float row[] = {float(random.normal()), float(3 + random.normal()),
                         float(1e4 * random.normal()), 7.f};
    const double label = random.normal() + double(row[0]);
    x.insert(x.end(), row, row + kColumns);
    y.push_back(label);
    weights.push_back(double(random.below(3)));
    for (double n = 0; n < weights.back(); ++n) {
      copies.insert(copies.end(), row, row + kColumns);
      copied_y.push_back(label);
    }
  }
  const std::vector<double> ones(copied_y.size(), 1.0);
  const auto fit = ColumnRidge(x, kColumns, y, weights, 1).fit(2);
  const auto same = ColumnRidge(copies, kColumns, copied_y, ones, 1, 1).fit(2);
  EXPECT_NEAR(fit.intercept, same.intercept, 1e-9);
  for (size_t c = 0; c < kColumns; ++c) EXPECT_NEAR(fit.weights[c], same.weights[c], 1e-9);
  EXPECT_EQ(fit.weights[3], 0);
  // The first column keeps its scale: the derivative of the penalty is 2 * strength * weight.
  double intercept_gradient = 0, gradient = 2 * fit.weights[0];
  for (size_t s = 0; s < copied_y.size(); ++s) {
    const double error = fit.predict({copies.data() + s * kColumns, kColumns}) - copied_y[s];
    intercept_gradient += error;
    gradient += error * double(copies[s * kColumns]);
  }
  EXPECT_NEAR(intercept_gradient, 0, 1e-6);
  EXPECT_NEAR(gradient, 0, 1e-6);
}

struct FittedScreen {
  Samples samples = {};
  Split split = {};
  std::vector<Baseline> fits = {};

  FittedScreen(uint64_t seed, uint64_t most_genes) {
    Random random(seed, 5);
    SampleBuilder builder(kNodes, {"label"});
    std::vector<uint8_t> parts;
    for (uint64_t s = 0; s < 200; ++s) {
      std::vector<uint32_t> removed(random.below(most_genes + 1));
      for (auto& gene : removed) gene = uint32_t(random.below(kNodes));
      builder.add(removed, std::vector<float>{float(random.normal())});
      parts.push_back(uint8_t(s % 3));
    }
    samples = builder.finish();
    split = {"thirds", Array::from(std::move(parts)), {}};
    fits = fit_baselines(samples, kNodes, split, 0);
  }
  const Baseline& ridge() const {
    for (const Baseline& fit : fits)
      if (fit.name == "ridge") return fit;
    throw std::logic_error("no ridge");
  }
};

TEST(NetworkBaseline, SamplesOfOneGeneHaveTheirOffsetAlone) {
  const uint64_t seed = test_seed();
  const auto networks = gene_networks(small_graph(seed, kNodes));
  for (const uint64_t most : {1, 3}) {
    const FittedScreen screen(seed, most);
    std::vector<uint64_t> all;
    for (uint64_t s = 0; s < screen.samples.size(); ++s) all.push_back(s);
    const NetworkRequest request = {.networks = networks,
                                    .samples = screen.samples,
                                    .split = screen.split,
                                    .ridge = screen.ridge(),
                                    .others = screen.samples,
                                    .chosen = {all}};
    const auto found = network_baseline(request, {}, Progress::none());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->note.starts_with("offsets alone"), most == 1) << found->note;
    const auto ridge = screen.ridge().predict(screen.samples, all);
    const Indicators sets = gene_indicators(screen.samples, kNodes, all);
    bool differs = false;
    for (const uint64_t s : all)
      if (sets.of(s).size() < 2)
        EXPECT_NEAR(found->predicted[0][s], ridge[s], 1e-6);
      else
        differs = differs || std::abs(found->predicted[0][s] - ridge[s]) > 1e-4;
    EXPECT_EQ(differs, most > 1);
    std::string words;
    const auto hear = [&](const std::string& said) { words = said; };
    EXPECT_EQ(network_baseline(request, hear, Progress::none(), 5).has_value(), most == 1);
    EXPECT_EQ(words.find("network") != std::string::npos, most > 1) << words;
  }
}

}  // namespace
}  // namespace lacuna
