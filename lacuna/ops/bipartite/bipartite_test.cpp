#include "lacuna/ops/bipartite/bipartite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/ops/closeness.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

constexpr BipartiteStep kSteps[] = {
    BipartiteStep::gene_to_reaction, BipartiteStep::reaction_to_metabolite,
    BipartiteStep::metabolite_to_reaction, BipartiteStep::reaction_to_gene};

struct Metabolism {
  uint32_t genes = 40, reactions = 55, metabolites = 25;
  std::vector<uint32_t> edge_gene, edge_reaction;            // gene-reaction
  std::vector<uint32_t> stoich_reaction, stoich_metabolite;  // reaction-metabolite
  std::vector<float> coefficients;

  BipartiteGraph graph() const {
    return {make_bipartite_plan(genes, reactions, metabolites, {edge_gene, edge_reaction},
                                {stoich_reaction, stoich_metabolite}),
            genes, reactions, metabolites, coefficients};
  }
};

// Some reactions without genes, some genes without reactions, repeated edges by chance.
Metabolism random_metabolism(uint64_t seed, int gene_edges = 50, int metabolite_edges = 150) {
  Metabolism m;
  Random random(seed);
  for (int e = 0; e < gene_edges; ++e) {
    m.edge_gene.push_back(uint32_t(random.below(m.genes)));
    m.edge_reaction.push_back(uint32_t(random.below(m.reactions)));
  }
  for (int e = 0; e < metabolite_edges; ++e) {
    m.stoich_reaction.push_back(uint32_t(random.below(m.reactions)));
    m.stoich_metabolite.push_back(uint32_t(random.below(m.metabolites)));
    m.coefficients.push_back(float(random.normal()));
  }
  return m;
}

// The matrix of a step for one sample, [targets, sources], from the rules' own words.
std::vector<std::vector<double>> matrix(const Metabolism& m, BipartiteStep step,
                                        const std::set<int32_t>& removed) {
  std::vector<bool> kept(m.reactions, true);
  for (size_t e = 0; e < m.edge_gene.size(); ++e)
    if (removed.count(int32_t(m.edge_gene[e])) != 0) kept[m.edge_reaction[e]] = false;
  const auto graph = m.graph();
  std::vector<std::vector<double>> a(target_count(graph, step),
                                     std::vector<double>(source_count(graph, step)));
  if (step == BipartiteStep::gene_to_reaction || step == BipartiteStep::reaction_to_gene) {
    for (size_t e = 0; e < m.edge_gene.size(); ++e) {
      const uint32_t g = m.edge_gene[e], r = m.edge_reaction[e];
      if (!kept[r]) continue;
      (step == BipartiteStep::gene_to_reaction ? a[r][g] : a[g][r]) += 1;
    }
    for (auto& row : a) {
      double sum = 0;
      for (const double weight : row) sum += weight;
      for (double& weight : row) weight = sum == 0 ? 0 : weight / sum;
    }
  } else {
    for (size_t e = 0; e < m.stoich_reaction.size(); ++e) {
      const uint32_t r = m.stoich_reaction[e], x = m.stoich_metabolite[e];
      if (!kept[r]) continue;
      (step == BipartiteStep::reaction_to_metabolite ? a[x][r] : a[r][x]) +=
          double(m.coefficients[e]);
    }
  }
  return a;
}

// out = A x (or A^T x) for every sample, and the same with absolute values everywhere.
struct Product {
  std::vector<double> value, magnitude;
};
Product product(const Metabolism& m, BipartiteStep step, const RandomRemoved& removed,
                int64_t width, const std::vector<double>& x, bool transposed) {
  const auto graph = m.graph();
  const size_t batch = size_t(removed.view().batch()), h_count = size_t(width);
  const size_t targets = target_count(graph, step), sources = source_count(graph, step);
  const size_t rows = transposed ? sources : targets;
  Product out = {std::vector<double>(rows * batch * h_count),
                 std::vector<double>(rows * batch * h_count)};
  for (size_t b = 0; b < batch; ++b) {
    const auto a = matrix(
        m, step,
        {removed.index.begin() + removed.ptr[b], removed.index.begin() + removed.ptr[b + 1]});
    for (size_t i = 0; i < targets; ++i)
      for (size_t j = 0; j < sources; ++j) {
        if (a[i][j] == 0) continue;
        const size_t row = transposed ? j : i, other = transposed ? i : j;
        for (size_t h = 0; h < h_count; ++h) {
          const double term = a[i][j] * x[(other * batch + b) * h_count + h];
          out.value[(row * batch + b) * h_count + h] += term;
          out.magnitude[(row * batch + b) * h_count + h] += std::abs(term);
        }
      }
  }
  return out;
}

template <class Real>
class BipartiteTyped : public ::testing::Test {};
using Reals = ::testing::Types<float, BFloat16, double>;
TYPED_TEST_SUITE(BipartiteTyped, Reals);

TYPED_TEST(BipartiteTyped, EveryStepAndItsTransposeMatchThePlainProduct) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Metabolism m = random_metabolism(seed);
  const BipartiteGraph graph = m.graph();
  for (const BipartiteStep step : kSteps)
    for (const int64_t batch : {1, 5})
      for (const int64_t width : {1, 9, 64}) {
        SCOPED_TRACE(fmt::format("{} batch {} width {}", name(step), batch, width));
        const auto removed = random_removed(seed, m.genes, batch, 4);
        const int64_t sources = source_count(graph, step) * batch * width;
        const int64_t targets = target_count(graph, step) * batch * width;

        const auto x = random_numbers<TypeParam>(seed, 1, sources);
        const auto expected = product(m, step, removed, width, to_doubles(x), false);
        auto out = poisoned<TypeParam>(size_t(targets));
        bipartite<TypeParam>(graph, step, width, x.data(), removed.view(), out.data());
        expect_close(out, expected.value, {expected.magnitude, 30});

        const auto grad_out = random_numbers<TypeParam>(seed, 2, targets);
        const auto grad = product(m, step, removed, width, to_doubles(grad_out), true);
        auto grad_x = poisoned<TypeParam>(size_t(sources));
        bipartite_backward<TypeParam>(graph, step, width, grad_out.data(), removed.view(),
                                      grad_x.data());
        expect_close(grad_x, grad.value, {grad.magnitude, 30});

        auto again = poisoned<TypeParam>(size_t(targets));
        bipartite<TypeParam>(graph, step, width, x.data(), removed.view(), again.data(), 3);
        EXPECT_TRUE(same_bits(again, out));
        if (this->HasFatalFailure()) return;
      }
}

// Reactions A{0,1}, B{3}, C{}; removing gene 1 takes A away.
TEST(Bipartite, HandCheckedExample) {
  Metabolism m;
  m.genes = 5, m.reactions = 3, m.metabolites = 2;
  m.edge_gene = {0, 1, 3}, m.edge_reaction = {0, 0, 1};
  m.stoich_reaction = {0, 0, 1, 2}, m.stoich_metabolite = {0, 1, 1, 0};
  m.coefficients = {-1, 2, 3, 5};
  const BipartiteGraph graph = m.graph();
  RandomRemoved removed;
  removed.add({});
  removed.add(std::vector<int32_t>{1});
  const auto run = [&](BipartiteStep step, const std::vector<float>& x) {
    auto out = poisoned<float>(target_count(graph, step) * 2);
    bipartite<float>(graph, step, 1, x.data(), removed.view(), out.data());
    return out;
  };
  const std::vector<float> genes = {1, 1, 3, 3, 7, 7, 4, 4, 9, 9};  // [5, 2]
  EXPECT_EQ(run(BipartiteStep::gene_to_reaction, genes), (std::vector<float>{2, 0, 4, 4, 0, 0}));
  const std::vector<float> reactions = {1, 1, 10, 10, 100, 100};  // [3, 2]
  EXPECT_EQ(run(BipartiteStep::reaction_to_metabolite, reactions),
            (std::vector<float>{499, 500, 32, 30}));
  EXPECT_EQ(run(BipartiteStep::metabolite_to_reaction, {1, 1, 10, 10}),
            (std::vector<float>{19, 0, 30, 30, 5, 5}));
  EXPECT_EQ(run(BipartiteStep::reaction_to_gene, reactions),
            (std::vector<float>{1, 0, 1, 0, 0, 0, 10, 10, 0, 0}));
}

// What lies in the rows of what is gone, NaN included, has no influence, and gets no gradient.
TEST(Bipartite, RemovedRowsHaveNoInfluence) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Metabolism m = random_metabolism(seed);
  const BipartiteGraph graph = m.graph();
  const auto gene = int32_t(m.edge_gene[0]);
  const uint32_t reaction = m.edge_reaction[0];
  RandomRemoved removed;
  removed.add(std::vector<int32_t>{gene});
  for (const BipartiteStep step : kSteps) {
    SCOPED_TRACE(name(step));
    auto x = random_numbers<float>(seed, 1, source_count(graph, step) * 4);
    auto before = poisoned<float>(target_count(graph, step) * 4), after = before;
    bipartite<float>(graph, step, 4, x.data(), removed.view(), before.data());
    if (step == BipartiteStep::metabolite_to_reaction) continue;  // no source ever goes
    const size_t row = step == BipartiteStep::gene_to_reaction ? size_t(gene) : reaction;
    for (size_t h = 0; h < 4; ++h) x[row * 4 + h] = std::numeric_limits<float>::quiet_NaN();
    bipartite<float>(graph, step, 4, x.data(), removed.view(), after.data());
    EXPECT_TRUE(same_bits(before, after));
    const auto grad_out = random_numbers<float>(seed, 2, target_count(graph, step) * 4);
    auto grad_x = poisoned<float>(x.size());
    bipartite_backward<float>(graph, step, 4, grad_out.data(), removed.view(), grad_x.data());
    for (size_t h = 0; h < 4; ++h) EXPECT_EQ(grad_x[row * 4 + h], 0.0f);
  }
}

TEST(Bipartite, NoEdgesAtAll) {
  const Metabolism m = random_metabolism(1, 0, 0);
  for (const BipartiteStep step : kSteps) {
    const BipartiteGraph graph = m.graph();
    const auto removed = random_removed(1, m.genes, 2, 2);
    const auto x = random_numbers<float>(1, 1, source_count(graph, step) * 2);
    auto out = poisoned<float>(target_count(graph, step) * 2);
    bipartite<float>(graph, step, 1, x.data(), removed.view(), out.data());
    for (const float number : out) EXPECT_EQ(number, 0.0f);
  }
}

TEST(Bipartite, BadInputIsNamed) {
  const auto message_of = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  Metabolism m = random_metabolism(1);
  m.edge_reaction[3] = m.reactions;
  EXPECT_NE(message_of([&] { m.graph(); }).find("gene-reaction edge 3 ends at index 55"),
            std::string::npos);
  m = random_metabolism(1);
  m.stoich_reaction[2] = m.reactions;
  EXPECT_NE(message_of([&] { m.graph(); }).find("reaction-metabolite edge 2 starts at index 55"),
            std::string::npos);
  m = random_metabolism(1);
  m.coefficients.pop_back();
  RandomRemoved removed;
  removed.add(std::vector<int32_t>{40});  // a reaction has that index, a gene has not
  std::vector<float> x(1000), out(1000);
  const auto call = [&] {
    return message_of([&] {
      bipartite<float>(m.graph(), BipartiteStep::gene_to_reaction, 1, x.data(), removed.view(),
                       out.data());
    });
  };
  EXPECT_NE(call().find("coefficients has 149 entries"), std::string::npos);
  m.coefficients.push_back(1);
  EXPECT_NE(call().find("removed[0] = 40"), std::string::npos);
  EXPECT_THROW(bipartite_step_from_name("gene_to_gene"), Error);
  EXPECT_EQ(bipartite_step_from_name("reaction_to_gene"), BipartiteStep::reaction_to_gene);
}

}  // namespace
}  // namespace lacuna
