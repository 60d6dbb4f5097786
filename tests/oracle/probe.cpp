// Runs models on given batches and writes what they compute, for tests/test_oracle.py to compare
// with models written anew in Python.
//
//   model_probe JOB.yaml OUT
//
// JOB: screen (its directory), features (optional: an .npy [N, d] that the genes get), and cases, a
// map from a name to
//   model    settings (docs of each model)
//   removed  [B] lists of gene numbers
//   labels   [B, L], standardised
//   loss     mse or log_cosh
//   epoch    what total_loss() is told
//   steps    how many steps of AdamW follow
//
// OUT/<case>.safetensors, all f64: weight/<name> (drawn, then shaken so that nothing sits at its
// special first value), prediction [B, L], loss, gradient/<name>, and after/<name>: the weights
// after the steps.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>
#include <yaml-cpp/yaml.h>

#include <cstdio>

#include "lacuna/core/error.h"
#include "lacuna/nn/model.h"
#include "lacuna/screen/screen.h"
#include "lacuna/store/npy.h"
#include "lacuna/store/safetensors.h"

namespace lacuna {
namespace {

constexpr double kShake = 0.2;
constexpr uint64_t kDropoutSeed = 11;  // set before every forward(), there and in plain_models.py

Array to_array(const at::Tensor& tensor) {
  const auto flat = tensor.detach().contiguous();
  const double* data = flat.const_data_ptr<double>();
  const Shape shape(flat.sizes().begin(), flat.sizes().end());
  return Array::from(std::vector<double>(data, data + flat.numel()), shape);
}

at::Tensor to_tensor(const std::vector<std::vector<double>>& rows) {
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(at::tensor(row, at::kDouble));
  return at::stack(tensors);
}

ModelInput to_input(const std::vector<std::vector<int32_t>>& samples) {
  std::vector<int32_t> removed, ptr = {0};
  for (const auto& sample : samples) {
    removed.insert(removed.end(), sample.begin(), sample.end());
    ptr.push_back(int32_t(removed.size()));
  }
  return make_input(removed, ptr);
}

at::Tensor loss_of(const std::string& name, const at::Tensor& prediction,
                   const at::Tensor& labels) {
  const auto difference = prediction - labels;
  return name == "mse" ? difference.square().mean() : difference.cosh().log().mean();
}

void run_case(const YAML::Node& job, const GeneGraph& graph, const fs::path& out) {
  const auto input = to_input(job["removed"].as<std::vector<std::vector<int32_t>>>());
  const auto labels = to_tensor(job["labels"].as<std::vector<std::vector<double>>>());
  const auto model = make_model(YAML::Clone(job["model"]), graph, labels.size(1), /*seed=*/7);
  model->to(at::kDouble);
  Safetensors result;
  const auto write = [&](const std::string& name, const at::Tensor& tensor) {
    result.arrays[name] = to_array(tensor);
  };
  for (const auto& weight : model->named_parameters()) {
    const at::NoGradGuard no_grad;
    weight.value().add_(at::randn_like(weight.value()), kShake);
    write("weight/" + weight.key(), weight.value());
  }
  at::Tensor prediction;
  const auto forward = [&] {
    at::manual_seed(kDropoutSeed);
    prediction = model->forward(input);
    const auto loss = loss_of(job["loss"].as<std::string>(), prediction, labels);
    return model->total_loss(loss, job["epoch"].as<int64_t>());
  };
  const auto loss = forward();
  loss.backward();
  write("prediction", prediction);
  write("loss", loss);
  for (const auto& weight : model->named_parameters()) {
    const auto& gradient = weight.value().grad();
    write("gradient/" + weight.key(),
          gradient.defined() ? gradient : at::zeros_like(weight.value()));
  }
  torch::optim::AdamW optimiser(model->parameters(), torch::optim::AdamWOptions(1e-3).eps(1e-6));
  for (int step = 0; step < job["steps"].as<int>(); ++step) {
    optimiser.zero_grad();
    forward().backward();
    optimiser.step();
  }
  for (const auto& weight : model->named_parameters())
    write("after/" + weight.key(), weight.value());
  write_safetensors(out, result);
}

void run(const fs::path& job_file, const fs::path& out) {
  const YAML::Node job = YAML::LoadFile(job_file.string());
  HeteroGraph graph = Screen::open(job["screen"].as<std::string>()).graph();
  if (job["features"])
    graph.add_feature("gene", "given", read_npy(job["features"].as<std::string>()));
  const GeneGraph placed(graph, at::kCPU);
  for (const auto& entry : job["cases"])
    run_case(entry.second, placed, out / (entry.first.as<std::string>() + ".safetensors"));
}

}  // namespace
}  // namespace lacuna

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: model_probe JOB.yaml OUT\n");
    return 2;
  }
  try {
    at::set_num_threads(1);  // tensors are tiny, and idle threads would wait at full speed
    lacuna::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
