// Properties of the models; that their numbers are right is tests/test_oracle.py's to say.
#include "lacuna/nn/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "lacuna/core/testing.h"
#include "lacuna/nn/layers.h"
#include "lacuna/nn/testing.h"
#include "lacuna/ops/masks/masks.h"
#include "lacuna/torch/recompute.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

// Tensors are tiny, and idle threads would wait at full speed.
const bool one_thread = (at::set_num_threads(1), true);

// ---- sizes
TEST(Model, ParameterCountAtYeastSize) {
  const GeneGraph graph(generate_graph(GraphSize::yeast, 1), at::kCPU);
  const auto model = make_model(YAML::Load("{name: hetero_gin, merge: pairwise}"), graph, 1, 1);
  EXPECT_EQ(model->parameter_count(), 1'781'187);
}

TEST(Model, ParameterCountsAreWhatTheSettingsSay) {
  const GeneGraph graph = tiny_graph(1);
  const int64_t G = graph.type_count(), H = 24, N = kGenes, L = 2;
  const auto linear = [](int64_t in, int64_t out) { return in * out + out; };
  const int64_t mlp = 4 * linear(H, H) + 2 * H;
  const int64_t global =
      linear(H, H / 2) + linear(H / 2, 1) + linear(H, H) + linear(H, H) + linear(H, L);
  const int64_t local = linear(H, H) + 2 * (4 * linear(H, H) + 1) + linear(H, L);
  const int64_t rest = N * H + 2 * linear(H, H) + 2 * H + 3 * G * (1 + mlp);
  const auto count = [&](const std::string& settings) {
    const std::string text = "{width: 24, " + settings + "}";
    return make_model(YAML::Load(text), graph, L, 1)->parameter_count();
  };
  const auto pairwise = [&](int64_t graphs) {
    return graphs * (graphs + 1) / 2 * (linear(2 * H, 32) + linear(32, H)) + linear(H, 32) +
           linear(32, 1) + 2 * H;
  };
  EXPECT_EQ(count("name: hetero_gin"), rest + global + local);
  EXPECT_EQ(count("name: hetero_gin, merge: mean"), rest + global + local);
  EXPECT_EQ(count("name: hetero_gin, norm: batch_graph"), rest + global + local);
  EXPECT_EQ(count("name: hetero_gin, merge: attention"),
            rest + global + local + 3 * (G * H + 4 * linear(H, H)));
  EXPECT_EQ(count("name: hetero_gin, merge: pairwise"), rest + global + local + 3 * pairwise(G));
  EXPECT_EQ(count("name: hetero_gin, output: global"), rest + global);
  EXPECT_EQ(count("name: hetero_gin, output: local"), rest + local);
  EXPECT_EQ(count("name: hetero_gin, output: gate"),
            rest + global + local + linear(2, H) + linear(H, 2));
  EXPECT_EQ(count("name: hetero_gin, features: beside"), rest + global + local + linear(3, H));
  EXPECT_EQ(count("name: hetero_gin, features: instead"),
            rest + global + local + linear(3, H) - N * H);
  EXPECT_EQ(
      count("name: hetero_gin, merge: pairwise, metabolism: true"),
      rest + global + local + 3 * (H + linear(H, H) + linear(2 * H, H) + mlp + pairwise(G + 1)));
  EXPECT_EQ(count("name: dango"), N * H + 2 * G * (linear(H, H) + H * H) + G * linear(H, N) +
                                      linear(H, H) + linear(H, 1) + local);
  EXPECT_EQ(count("name: mlp"), N * H + 2 * linear(H, H) + linear(H, L));
}

TEST(Model, WeightsComeFromTheSeed) {
  const GeneGraph graph = tiny_graph(1);
  const auto weights = [&](uint64_t seed) {
    return make_model(YAML::Load("{name: hetero_gin, merge: pairwise}"), graph, 1, seed)
        ->named_parameters();
  };
  const auto a = weights(1), b = weights(1), c = weights(2);
  for (const auto& one : a) EXPECT_TRUE(one.value().equal(b[one.key()])) << one.key();
  EXPECT_FALSE(a["table"].equal(c["table"]));
  // Kaiming, fan out; what gives one score starts small.
  EXPECT_NEAR(a["layer0.mlp.dense0.weight"].std().item<double>(), std::sqrt(2.0 / 64), 0.01);
  EXPECT_NEAR(a["table"].std().item<double>(), 0.02, 0.002);
  EXPECT_NEAR(a["layer1.merge.hidden.weight"].std().item<double>(), std::sqrt(2.0 / 32), 0.01);
  for (const auto& one : a) {
    if (one.key().ends_with("score.weight") || one.key() == "pool.gate.weight") {
      EXPECT_LT(one.value().abs().max().item<double>(), 0.12) << one.key();
    }
  }
}

// ---- the exact savings
TEST(HeteroGin, SavingsGiveTheNumbersOfThePlainForm) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const GeneGraph graph = tiny_graph(seed);
  const ModelInput input = to_input(odd_and_usual(seed));
  for (const std::string merge : {"sum", "mean", "attention", "pairwise"})
    for (const std::string norm : {"layer", "batch_graph"})
      for (const std::string others :
           {"output: average, metabolism: true", "output: gate, features: beside",
            "output: global, features: instead", "output: local"}) {
        const std::string settings =
            "{name: hetero_gin, width: 16, layers: 2, dropout: 0, merge: " + merge +
            ", norm: " + norm + ", " + others;
        SCOPED_TRACE(settings);
        const auto saving = shaken(settings + "}", graph, seed, 2);
        const auto plain = shaken(settings + ", savings: false}", graph, seed, 2);
        const auto names = plain->named_parameters().keys();
        const auto ours = compute(*saving, input), expected = compute(*plain, input);
        ASSERT_EQ(ours.size(), expected.size());
        // Attention does not feel the bias of its keys: the gradient of that is rounding alone, to
        // be measured against the other gradients.
        double whole = 0;
        for (const auto& tensor : expected) whole += tensor.norm().item<double>();
        for (size_t i = 0; i < ours.size(); ++i) {
          EXPECT_LT((ours[i] - expected[i]).norm().item<double>(),
                    1e-9 * expected[i].norm().item<double>() + 1e-12 * whole)
              << (i ? names[i - 1] : "prediction");
        }
      }
}

TEST(Recompute, EqualsTheDirectCall) {
  const auto weight = at::randn({6, 4}, at::kDouble).requires_grad_();
  const auto x = at::randn({10, 6}, at::kDouble).requires_grad_();
  int calls = 0;
  const auto f = [&](const at::Tensor& input) {
    ++calls;
    return at::gelu(at::matmul(input.sin(), weight));
  };
  const auto direct = f(x);
  direct.square().sum().backward();
  const auto of_weight = weight.grad().clone(), of_x = x.grad().clone();
  weight.mutable_grad() = x.mutable_grad() = at::Tensor();
  calls = 0;
  const auto result = recompute(f, x);
  EXPECT_TRUE(result.equal(direct));
  result.square().sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(weight.grad().equal(of_weight));
  EXPECT_TRUE(x.grad().equal(of_x));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(recompute(f, x).requires_grad());
}

// ---- samples of all kinds
const char* const kEveryModel[] = {
    "{name: hetero_gin, width: 16, layers: 2, dropout: 0, metabolism: true, merge: attention}",
    "{name: hetero_gin, width: 16, layers: 2, dropout: 0, output: gate, merge: pairwise}",
    "{name: hetero_gin, width: 16, layers: 2, dropout: 0, local: neighbours, weights: normalised}",
    "{name: hetero_gin, width: 16, layers: 1, dropout: 0, local: wild_type, output: local}",
    "{name: wild_type, width: 16, dropout: 0, features: beside, feature_names: [given]}",
    "{name: factors, width: 16, similar: 3, features: beside, feature_names: [given]}",
    "{name: dango, width: 16}",
    "{name: mlp, width: 16, dropout: 0}",
    "{name: lost_neighbours, width: 16}",
};

TEST(Model, ASampleDoesNotSeeTheOthersOfItsBatch) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const GeneGraph graph = tiny_graph(seed);
  const SampleSets samples = odd_and_usual(seed);
  for (const std::string settings : kEveryModel) {
    SCOPED_TRACE(settings);
    const auto model = shaken(settings, graph, seed, 3);
    const auto together = model->forward(to_input(samples));
    ASSERT_EQ(together.sizes(), (std::vector<int64_t>{int64_t(samples.size()), 3}));
    EXPECT_TRUE(together.isfinite().all().item<bool>());
    for (size_t i = 0; i < 6; ++i)
      EXPECT_LT(apart(model->forward(to_input({samples[i]}))[0], together[int64_t(i)]), 1e-9) << i;
  }
}

// By masks that are wrong: they remove everything.
TEST(Model, ReadsMasksWhereItSaysSo) {
  const HeteroGraph graph = generate_graph(GraphSize::tiny, 1);
  const MaskLayout layout(RemovalRules(graph), MaskForm::u8);
  ModelInput input = to_input({{5}, {7, 3}});
  ModelInput wrong = input;
  wrong.masks = at::zeros({input.batch() + 1, int64_t(layout.stride())}, at::kByte);
  for (const auto& [settings, reads] :
       {std::pair("{name: hetero_gin, layers: 1}", false),
        std::pair("{name: hetero_gin, layers: 1, metabolism: true}", false),
        std::pair("{name: hetero_gin, layers: 1, norm: batch_graph}", false),
        std::pair("{name: hetero_gin, layers: 1, savings: false}", true),
        std::pair("{name: hetero_gin, layers: 2}", true), std::pair("{name: mlp}", false),
        std::pair("{name: dango}", false)}) {
    const auto model = make_model(YAML::Load(settings), GeneGraph(graph, at::kCPU), 1, 1);
    model->eval();
    EXPECT_EQ(model->reads_masks(), reads) << settings;
    EXPECT_EQ(model->forward(input).equal(model->forward(wrong)), !reads) << settings;
  }
}

TEST(Model, RepeatsAndOrderDoNotMatterAndGenesDo) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const GeneGraph graph = tiny_graph(seed);
  for (const std::string settings : kEveryModel) {
    SCOPED_TRACE(settings);
    const auto model = shaken(settings, graph, seed);
    const auto y = model->forward(to_input({{4, 9, 2}, {2, 4, 9}, {9, 2, 4, 2, 9}, {9, 2, 5}}));
    EXPECT_LT(apart(y[1], y[0]), 1e-9);
    EXPECT_LT(apart(y[2], y[0]), 1e-9);
    EXPECT_GT(apart(y[3], y[0]), 1e-6);
  }
}

TEST(HeteroGin, EmptySetsAndSetsOfOne) {
  const GeneGraph graph = tiny_graph(3);
  const auto local = shaken("{name: hetero_gin, width: 16, output: local, dropout: 0}", graph, 3);
  const auto scores = local->forward(to_input({{}, {8}, {8, 8}, {8, 9}}));
  const auto bias = local->named_parameters()["local.score.bias"];
  EXPECT_EQ(scores[0].item<double>(), 0);
  EXPECT_EQ(scores[1].item<double>(), bias.item<double>());  // nobody else: nothing moves
  EXPECT_EQ(scores[2].item<double>(), bias.item<double>());
  EXPECT_NE(scores[3].item<double>(), bias.item<double>());
  const auto global = shaken("{name: hetero_gin, width: 16, output: global, dropout: 0}", graph, 3);
  const auto results = global->embeddings(to_input({{}, odd_and_usual(3)[3]}));
  EXPECT_EQ(results.at("genes").sizes(), (std::vector<int64_t>{kGenes, kWidth}));
  EXPECT_GT(results.at("pooled")[0].norm().item<double>(), 0);
  EXPECT_EQ(results.at("pooled")[1].norm().item<double>(), 0);  // nobody is kept
}

TEST(HeteroGin, BatchGraphCouplesTheSamplesAsDocumented) {
  const GeneGraph graph = tiny_graph(4);
  const std::string settings = "{name: hetero_gin, width: 16, dropout: 0, norm: batch_graph}";
  const auto model = shaken(settings, graph, 4);
  const auto alone = model->forward(to_input({{1, 2, 3}}));
  EXPECT_GT(apart(model->forward(to_input({{1, 2, 3}, {4}}))[0], alone[0]), 1e-9);
}

// The states of a graph without edges, or of genes that a norm has made alike, may all be the same.
TEST(Norm, OfEqualNumbersHasAGradient) {
  for (const int64_t graphs : {0, 2}) {
    const Norm norm(NormKind::batch_graph, 4, graphs);
    at::Tensor x = at::full({2, 3, 4}, 0.5).requires_grad_(true);
    norm.forward(x).square().sum().backward();
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
    EXPECT_EQ(norm.forward(x).abs().max().item<float>(), 0);
  }
}

TEST(Model, DropoutOnlyInTraining) {
  const GeneGraph graph = tiny_graph(5);
  const ModelInput input = to_input({{1, 2, 3}});
  for (const std::string settings :
       {"{name: hetero_gin, width: 16, dropout: 0.5}", "{name: mlp, width: 16, dropout: 0.5}"}) {
    const auto model = shaken(settings, graph, 5);
    EXPECT_FALSE(model->forward(input).equal(model->forward(input)));
    model->eval();
    EXPECT_TRUE(model->forward(input).equal(model->forward(input)));
  }
}

// A sample that removes nobody is the wild type, dropout included: its pooled states do not differ,
// and the global head says what it says of zeros, which its own weights tell.
TEST(HeteroGin, WildTypeAndSamplesShareTheirDropout) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const GeneGraph graph = tiny_graph(seed);
  for (const std::string merge : {"sum", "mean", "attention", "pairwise"})
    for (const std::string norm : {"layer", "batch_graph"})
      for (const std::string savings : {"true", "false"})
        for (const std::string others : {"metabolism: false", "metabolism: true"}) {
          const std::string settings =
              "{name: hetero_gin, width: 16, layers: 2, dropout: 0.5, output: global, merge: " +
              merge + ", norm: " + norm + ", savings: " + savings + ", " + others + "}";
          SCOPED_TRACE(settings);
          const auto model = shaken(settings, graph, seed, 2);
          const auto weights = model->named_parameters();
          const auto hidden =
              at::addmm(weights["global.hidden.bias"], at::zeros({1, kWidth}, at::kDouble),
                        weights["global.hidden.weight"]);
          const auto of_zeros = at::addmm(weights["global.score.bias"], at::gelu(hidden),
                                          weights["global.score.weight"]);
          EXPECT_TRUE(model->forward(to_input({{}})).equal(of_zeros));
          // batch_graph takes its statistics over the whole batch: only to rounding those of one.
          EXPECT_LT(apart(model->forward(to_input({{}, {}, {}})), of_zeros.expand({3, -1})), 1e-9);
          EXPECT_GT(apart(model->forward(to_input({{1, 2}})), of_zeros), 1e-6);
        }
}

TEST(Model, Bf16IsCloseToF32) {
  const uint64_t seed = 9;  // how close depends on the weights
  const GeneGraph graph = tiny_graph(seed);
  const ModelInput input = to_input(odd_and_usual(seed));
  for (const std::string settings : kEveryModel) {
    SCOPED_TRACE(settings);
    const auto model = shaken(settings, graph, seed);
    model->to(at::kFloat);
    const auto expected = compute(*model, input);
    model->compute_in(at::kBFloat16);
    const auto ours = compute(*model, input);
    EXPECT_EQ(ours[0].scalar_type(), at::kFloat);
    EXPECT_LT(apart(ours[0], expected[0]), 0.1);
    double difference = 0, whole = 0;  // of all gradients together
    for (size_t i = 1; i < ours.size(); ++i) {
      difference += (ours[i] - expected[i]).square().sum().item<double>();
      whole += expected[i].square().sum().item<double>();
    }
    EXPECT_LT(std::sqrt(difference / whole), 0.2);
  }
}

// ---- what is refused
TEST(Model, WrongSettingsAreNamed) {
  const GeneGraph graph = tiny_graph(1);
  const auto make = [&](const std::string& settings) {
    return make_model(YAML::Load(settings), graph, 1, 1);
  };
  EXPECT_ERROR(make("{width: 8}"), "the model has no name; there are: dango, factors");
  EXPECT_ERROR(make("{name: gin}"), "there is no model 'gin'; there are: dango, factors");
  EXPECT_ERROR(make("{name: hetero_gin, with: 8}"), "'model.with'; did you mean 'model.width'?");
  EXPECT_ERROR(make("{name: dango, merge: sum}"), "there is no setting 'model.merge'");
  EXPECT_ERROR(
      make("{name: hetero_gin, merge: max}"),
      "setting 'model.merge' is 'max', but must be one of: sum, mean, attention, pairwise");
  EXPECT_ERROR(make("{name: hetero_gin, norm: batch}"), "setting 'model.norm' is 'batch'");
  EXPECT_ERROR(make("{name: hetero_gin, output: both}"), "setting 'model.output' is 'both'");
  EXPECT_ERROR(make("{name: hetero_gin, dropout: 2}"), "setting 'model.dropout' is 2");
  EXPECT_ERROR(make("{name: hetero_gin, layers: 0}"), "setting 'model.layers' is 0");
  EXPECT_ERROR(make("{name: hetero_gin, width: 12}"), "width 12 is not a multiple");
  EXPECT_ERROR(make("{name: hetero_gin, output: global, merge: attention, width: 6}"),
               "a width that is a multiple of 4, not 6");
}

TEST(Model, WhatTheScreenLacksIsNamed) {
  HeteroGraph bare;
  bare.add_nodes("gene", Names(std::vector<std::string>{"A", "B"}));
  EXPECT_ERROR(GeneGraph(bare, at::kCPU), "the screen has no gene-gene edges");
  bare.add_edges("gene", "physical", "gene", Array::from(std::vector<uint8_t>{0, 1, 1, 0}, {2, 2}));
  const GeneGraph graph(bare, at::kCPU);
  EXPECT_ERROR(make_model(YAML::Load("{name: hetero_gin, features: beside}"), graph, 1, 1),
               "model.features is 'beside', but the screen has no node features");

  const auto expect_metabolism = [&](const std::string& words) {
    const GeneGraph placed(bare, at::kCPU);
    const auto make = [&] {
      return make_model(YAML::Load("{name: hetero_gin, metabolism: true}"), placed, 1, 1);
    };
    EXPECT_EQ(placed.has_metabolism(), words.empty());
    if (words.empty())
      EXPECT_NO_THROW(make());
    else
      EXPECT_ERROR(make(), "model.metabolism is true, but " + words);
  };
  const auto add = [&](const char* source, const char* name, const char* target,
                       std::vector<EdgeValue> values = {}) {
    bare.add_edges(source, name, target, Array::from(std::vector<uint8_t>{0, 0}, {2, 1}),
                   std::move(values));
  };
  const auto one = [](const char* name) { return EdgeValue{name, Array::from<float>({2})}; };
  expect_metabolism("the screen has no gene-reaction edges");
  bare.add_nodes("reaction", Names(std::vector<std::string>{"R"}));
  bare.add_nodes("metabolite", Names(std::vector<std::string>{"M"}));
  add("gene", "catalyses", "reaction");
  expect_metabolism("the screen has no reaction-metabolite edges");
  HeteroGraph whole = bare;
  add("reaction", "stoichiometry", "metabolite", {one("weight")});
  expect_metabolism("edges reaction.stoichiometry.metabolite of the screen have no value 'coeff");
  bare = whole;
  add("reaction", "stoichiometry", "metabolite", {one("weight"), one("coefficient")});
  expect_metabolism("");
  add("gene", "inhibits", "reaction");
  expect_metabolism(
      "the screen has 2 types of gene-reaction edges (gene.catalyses.reaction and "
      "gene.inhibits.reaction), and models read one");
}

TEST(Model, DefaultsAreAddedToTheSettings) {
  YAML::Node settings = YAML::Load("{name: dango}");
  make_model(settings, tiny_graph(1), 1, 1);
  EXPECT_EQ(settings["ramp_epochs"].as<int>(), 10);
}

// ---- training
TEST(Model, AStepDownhillLowersTheLoss) {
  const GeneGraph graph = tiny_graph(6);
  const ModelInput input = to_input(odd_and_usual(6));
  const auto labels = at::linspace(-1, 1, input.batch(), at::kDouble).unsqueeze(1);
  for (const std::string settings : kEveryModel) {
    SCOPED_TRACE(settings);
    const auto model = shaken(settings, graph, 6);
    const auto loss = [&] {
      return model->total_loss((model->forward(input) - labels).square().mean(), 5);
    };
    torch::optim::SGD optimiser(model->parameters(), torch::optim::SGDOptions(1e-5));
    const auto before = loss();
    before.backward();
    optimiser.step();
    EXPECT_LT(loss().item<double>(), before.item<double>());
  }
}

}  // namespace
}  // namespace lacuna
