// HeteroGin on a GPU, where layers compute what differs by lists made there: against the same model
// on the CPU, and against its plain form.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/nn/model.h"

namespace lacuna {
namespace {

#define LACUNA_NEEDS_TORCH_CUDA() \
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "needs a GPU and a torch with CUDA"

constexpr uint32_t kGenes = 600;

// So few edges that two removed genes reach few others in every layer.
HeteroGraph sparse_graph(uint64_t seed) {
  std::vector<std::string> names;
  for (uint32_t n = 0; n < kGenes; ++n) names.push_back("g" + std::to_string(n));
  HeteroGraph graph;
  graph.add_nodes("gene", Names(names));
  Random random(seed);
  for (const uint32_t edges : {500u, 700u, 90u}) {
    std::vector<uint32_t> ends(2 * edges);
    for (uint32_t& end : ends) end = uint32_t(random.below(kGenes));
    graph.add_edges("gene", "e" + std::to_string(edges), "gene",
                    Array::from(ends, {2, uint64_t(edges)}));
  }
  return graph;
}

ModelInput some_samples(uint64_t seed, int64_t count) {
  Random random(seed, 1);
  std::vector<int32_t> removed, ptr = {0};
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t i = 0; i < b % 3; ++i) removed.push_back(int32_t(random.below(kGenes)));
    ptr.push_back(int32_t(removed.size()));
  }
  return make_input(removed, ptr);
}

struct OnBoth {
  std::shared_ptr<Model> cpu, gpu;

  // In f64; bf16: what the GPU's computes in, with f32 parameters.
  OnBoth(const HeteroGraph& graph, const std::string& settings, const std::string& more = "",
         bool bf16 = false)
      : cpu(make_model(YAML::Load("{" + settings + "}"), GeneGraph(graph, at::kCPU), 2, 1)),
        gpu(make_model(YAML::Load("{" + settings + more + "}"), GeneGraph(graph, at::kCUDA), 2,
                       1)) {
    cpu->to(at::kDouble);
    gpu->to(at::Device(at::kCUDA));
    if (bf16)
      gpu->compute_in(at::kBFloat16);
    else
      gpu->to(at::kDouble);
    at::manual_seed(1);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < cpu->parameters().size(); ++i) {
      at::Tensor here = cpu->parameters()[i], there = gpu->parameters()[i];
      here.add_(at::randn_like(here), 0.1);
      there.copy_(here);
    }
  }
};

// The pooled states of the samples, and the gradients of a sum over them; f64 on the CPU.
std::vector<at::Tensor> pooled_and_gradients(Model& model, const ModelInput& input) {
  model.zero_grad();
  const at::Tensor pooled = model.embeddings(input).at("pooled");
  const auto factors = at::linspace(-1, 1, pooled.numel(), at::kDouble).sin().to(pooled.options());
  (pooled * factors.view_as(pooled)).sum().backward();
  std::vector<at::Tensor> results = {pooled.detach().to(at::kCPU, at::kDouble)};
  for (const at::Tensor& parameter : model.parameters())
    results.push_back(parameter.grad().defined() ? parameter.grad().to(at::kCPU, at::kDouble)
                                                 : at::zeros({1}, at::kDouble));
  return results;
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / (1e-12 + b.norm().item<double>());
}
at::Tensor in_one(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.flatten());
  return at::cat(flat);
}

TEST(HeteroGinCuda, AgreesWithTheCpuInF64) {
  LACUNA_NEEDS_TORCH_CUDA();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = sparse_graph(seed);
  const ModelInput input = some_samples(seed, 9);
  for (const char* merge : {"sum", "mean", "attention", "pairwise"}) {
    SCOPED_TRACE(merge);
    const OnBoth models(graph,
                        std::string("name: hetero_gin, width: 16, dropout: 0, merge: ") + merge);
    const auto wanted = pooled_and_gradients(*models.cpu, input);
    const auto got = pooled_and_gradients(*models.gpu, to_device(input, at::kCUDA));
    ASSERT_EQ(got.size(), wanted.size());
    // Some gradients are 0 but for rounding, as those of the key's bias.
    const double all = in_one(wanted).norm().item<double>();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LT((got[i] - wanted[i]).norm().item<double>(),
                1e-9 * (wanted[i].norm().item<double>() + 1e-3 * all))
          << i;
  }
}

// In bf16 of width 64 all three layers go by lists: as near to f64 as where every row is computed,
// and the same bits when it is done again.
TEST(HeteroGinCuda, IsAsExactAsThePlainFormInBf16) {
  LACUNA_NEEDS_TORCH_CUDA();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = sparse_graph(seed);
  const ModelInput input = some_samples(seed, 33);
  for (const char* merge : {"sum", "mean", "attention", "pairwise"}) {
    SCOPED_TRACE(merge);
    const std::string settings =
        std::string("name: hetero_gin, width: 64, dropout: 0, merge: ") + merge;
    const OnBoth by_lists(graph, settings, "", true);
    const OnBoth plain(graph, settings, ", savings: false", true);
    const ModelInput there = to_device(input, at::kCUDA);
    const auto wanted = pooled_and_gradients(*by_lists.cpu, input);
    const auto got = pooled_and_gradients(*by_lists.gpu, there);
    const auto again = pooled_and_gradients(*by_lists.gpu, there);
    const auto plainly = pooled_and_gradients(*plain.gpu, there);
    const double error = apart(in_one(got), in_one(wanted)),
                 of_plain = apart(in_one(plainly), in_one(wanted));
    EXPECT_LT(error, 2 * of_plain + 0.01);
    EXPECT_LT(of_plain, 0.2);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(again[i])) << i;
  }
}

// What is kept of the wild type changes nothing.
TEST(HeteroGinCuda, KeepsTheWildType) {
  LACUNA_NEEDS_TORCH_CUDA();
  const HeteroGraph graph = sparse_graph(3);
  const ModelInput input = to_device(some_samples(3, 40), at::kCUDA);
  for (const char* output : {"local", "average"}) {
    const OnBoth models(graph, std::string("name: hetero_gin, width: 64, output: ") + output, "",
                        true);
    models.gpu->eval();
    const at::NoGradGuard no_grad;
    const at::Tensor wanted = models.gpu->forward(input);
    models.gpu->keep_wild_type(true);
    EXPECT_TRUE(models.gpu->forward(input).equal(wanted)) << output;
    EXPECT_TRUE(models.gpu->forward(input).equal(wanted)) << output;
  }
}

}  // namespace
}  // namespace lacuna
