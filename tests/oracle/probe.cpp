// Runs models on given batches and writes what they compute, for tests/test_oracle.py to compare
// with models written anew in Python.
//
//   model_probe JOB.yaml OUT
//
// JOB: screen (its directory), features (optional: an .npy [N, d] that the genes get), values
// (optional: by gene network an .npy [E] that its edges get), and cases, a map from a name to
//   model    settings (docs of each model)
//   removed  [B] lists of gene numbers
//   labels   [B, L], standardised
//   loss     mse or log_cosh
//   epoch    what total_loss() is told
//   steps    how many steps of AdamW follow
//   hidden   (optional) genes are hidden: unseen (numbers), probability, and whether the model
//            is training; the answer has `hidden` [N], who was
// A JOB with `recording` instead of a screen has one case, of CoreReadout: settings `model`,
// `sessions` (of each: units, inputs, windows), `rows` (T target rows a window) and a folder
// `recording` with stimulus.npy u8 [B, lags + T - 1, Y, X], and of each session s counts<s>.npy f64
// [b T, units], validity<s>.npy u8 and inputs<s>.npy f64 [b T, K]. Its predictions are
// prediction<s>.
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
#include <functional>

#include "lacuna/core/error.h"
#include "lacuna/nn/model.h"
#include "lacuna/nn/models/core_readout.h"
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

// Drawn, then shaken so that nothing sits at its special first value.
void shake(torch::nn::Module& model, Safetensors& result) {
  for (const auto& weight : model.named_parameters()) {
    const at::NoGradGuard no_grad;
    weight.value().add_(at::randn_like(weight.value()), kShake);
    result.arrays["weight/" + weight.key()] = to_array(weight.value());
  }
}

// The gradients that are there, and the weights after some steps of AdamW.
void step(torch::nn::Module& model, int steps, const std::function<at::Tensor()>& forward,
          Safetensors& result) {
  for (const auto& weight : model.named_parameters()) {
    const auto& gradient = weight.value().grad();
    result.arrays["gradient/" + weight.key()] =
        to_array(gradient.defined() ? gradient : at::zeros_like(weight.value()));
  }
  torch::optim::AdamW optimiser(model.parameters(), torch::optim::AdamWOptions(1e-3).eps(1e-6));
  for (int i = 0; i < steps; ++i) {
    optimiser.zero_grad();
    forward().backward();
    optimiser.step();
  }
  for (const auto& weight : model.named_parameters())
    result.arrays["after/" + weight.key()] = to_array(weight.value());
}

at::Tensor read_tensor(const fs::path& file, at::ScalarType type) {
  const Array array = read_npy(file);
  const std::vector<int64_t> shape(array.shape().begin(), array.shape().end());
  return at::from_blob(const_cast<std::byte*>(array.bytes().data()), shape, type).clone();
}

void run_recording(const YAML::Node& job, const fs::path& out) {
  const fs::path folder = job["recording"].as<std::string>();
  WindowInput input;
  input.stimulus = read_tensor(folder / "stimulus.npy", at::kByte);
  const int64_t lags = input.stimulus.size(1) - job["rows"].as<int64_t>() + 1;
  RecordingShape shape = {lags, input.stimulus.size(2), input.stimulus.size(3), {}};
  std::vector<at::Tensor> counts, validity;
  for (const auto& session : job["sessions"]) {
    const auto s = std::to_string(shape.sessions.size());
    const auto file = [&](const char* name) { return folder / (name + s + ".npy"); };
    shape.sessions.push_back(
        {"s" + s, session["units"].as<int64_t>(), session["inputs"].as<int64_t>()});
    const bool has_inputs = shape.sessions.back().inputs > 0;
    input.sessions.push_back(int64_t(input.sessions.size()));
    input.ptr.push_back(input.ptr.back() + session["windows"].as<int64_t>());
    input.inputs.push_back(has_inputs ? read_tensor(file("inputs"), at::kDouble) : at::Tensor());
    counts.push_back(read_tensor(file("counts"), at::kDouble));
    validity.push_back(read_tensor(file("validity"), at::kByte));
  }
  const auto model = make_core_readout(YAML::Clone(job["model"]), shape, at::kCPU, /*seed=*/7);
  model->to(at::kDouble);
  Safetensors result;
  shake(*model, result);
  std::vector<at::Tensor> rates;
  const auto forward = [&] {
    rates = model->forward(input);
    const PoissonLoss loss = poisson_loss(rates, counts, validity);
    return loss.sum / loss.valid;
  };
  const auto loss = forward();
  loss.backward();
  for (size_t s = 0; s < rates.size(); ++s)
    result.arrays["prediction" + std::to_string(s)] = to_array(rates[s]);
  result.arrays["loss"] = to_array(loss);
  step(*model, job["steps"].as<int>(), forward, result);
  write_safetensors(out / "recording.safetensors", result);
}

void run_case(const YAML::Node& job, const GeneGraph& graph, const fs::path& out) {
  const auto input = to_input(job["removed"].as<std::vector<std::vector<int32_t>>>());
  const auto labels = to_tensor(job["labels"].as<std::vector<std::vector<double>>>());
  const auto model = make_model(YAML::Clone(job["model"]), graph, labels.size(1), /*seed=*/7);
  if (const auto hidden = job["hidden"]) {
    model->hide_genes(hidden["unseen"].as<std::vector<int64_t>>());
    model->hidden_genes()->draw(hidden["probability"].as<double>(), /*seed=*/7, /*step=*/3);
    model->train(hidden["training"].as<bool>());
  }
  model->to(at::kDouble);
  Safetensors result;
  const auto write = [&](const std::string& name, const at::Tensor& tensor) {
    result.arrays[name] = to_array(tensor);
  };
  shake(*model, result);
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
  if (model->hidden_genes())
    write("hidden", model->hidden_genes()->hidden().squeeze(1).to(at::kDouble));
  write("loss", loss);
  step(*model, job["steps"].as<int>(), forward, result);
  write_safetensors(out, result);
}

// The graph with values of the gene networks that `values` names.
HeteroGraph with_values(const HeteroGraph& graph, const YAML::Node& values) {
  HeteroGraph result;
  for (const NodeType& nodes : graph.node_types()) {
    result.add_nodes(nodes.name, nodes.names);
    for (const NodeFeature& feature : nodes.features)
      result.add_feature(nodes.name, feature.name, feature.values);
  }
  for (const EdgeType& type : graph.edge_types()) {
    std::vector<EdgeValue> own = type.values;
    if (type.source == type.target && values[type.name])
      own = {{"weight", read_npy(values[type.name].as<std::string>())}};
    result.add_edges(type.source, type.name, type.target, type.edges, own);
  }
  return result;
}

void run(const fs::path& job_file, const fs::path& out) {
  const YAML::Node job = YAML::LoadFile(job_file.string());
  if (job["recording"]) return run_recording(job, out);
  HeteroGraph graph = Screen::open(job["screen"].as<std::string>()).graph();
  if (job["features"])
    graph.add_feature("gene", "given", read_npy(job["features"].as<std::string>()));
  if (job["values"]) graph = with_values(graph, job["values"]);
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
