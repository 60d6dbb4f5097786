#include "lacuna/train/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/text/json.h"
#include "lacuna/train/optimiser.h"

namespace lacuna {
namespace {

constexpr const char* kKey = "lacuna";

struct Match {
  DType dtype;
  at::ScalarType scalar;
};
constexpr Match kMatches[] = {{DType::f32, at::kFloat},     {DType::f64, at::kDouble},
                              {DType::bf16, at::kBFloat16}, {DType::i64, at::kLong},
                              {DType::i32, at::kInt},       {DType::u8, at::kByte}};

constexpr std::string_view kBest = "best_";  // before a score's name

Json to_json(const TrainState& state) {
  Json json = {{"step", state.step},
               {"epoch", state.epoch},
               {"loader", lacuna::to_json(state.loader)},
               {"loss_sum", state.loss_sum},
               {"loss_count", state.loss_count}};
  for (const auto& [name, value] : state.best)
    json[std::string(kBest) + name] = value;  // JSON has no NaN: null before the first validation
  json["epochs_without_better"] = state.epochs_without_better;
  json["seconds"] = state.seconds;
  return json;
}

double number_or(const Json& json, double otherwise) {
  return json.is_null() ? otherwise : json.get<double>();
}

// Copies the array of that name into a tensor of the same shape.
void load_into(const Safetensors& contents, const fs::path& file, const std::string& name,
               const at::Tensor& out) {
  const auto found = contents.arrays.find(name);
  if (found == contents.arrays.end())
    throw Error("{} has no '{}'; was it made with other model settings?", file.string(), name);
  const at::Tensor tensor = to_tensor(found->second);
  if (tensor.sizes() != out.sizes() || tensor.scalar_type() != out.scalar_type())
    throw Error(
        "{}: '{}' has another shape or type than the model's; was it made with other settings?",
        file.string(), name);
  const at::NoGradGuard guard;
  out.copy_(tensor);
}

}  // namespace

Array to_array(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().cpu().contiguous();
  for (const Match& match : kMatches) {
    if (match.scalar != host.scalar_type()) continue;
    const auto owner = std::make_shared<const at::Tensor>(host);
    const Shape shape(host.sizes().begin(), host.sizes().end());
    return Array(match.dtype, shape, static_cast<const std::byte*>(owner->const_data_ptr()), owner);
  }
  throw Error("a tensor of type {} cannot be written", c10::toString(tensor.scalar_type()));
}

at::Tensor to_tensor(const Array& array) {
  for (const Match& match : kMatches) {
    if (match.dtype != array.dtype()) continue;
    const std::vector<int64_t> shape(array.shape().begin(), array.shape().end());
    return at::from_blob(const_cast<std::byte*>(array.bytes().data()), shape, match.scalar).clone();
  }
  throw Error("an array of type {} is none of a checkpoint's", name(array.dtype()));
}

void write_checkpoint(const fs::path& file, const torch::nn::Module& model,
                      const Optimiser& optimiser, const TrainState& state, const Json& about) {
  Safetensors contents;
  size_t i = 0;
  for (const auto& entry : model.named_parameters()) {
    contents.arrays[entry.key()] = to_array(entry.value());
    contents.arrays["optimizer.exp_avg." + entry.key()] = to_array(optimiser.exp_avg[i]);
    contents.arrays["optimizer.exp_avg_sq." + entry.key()] = to_array(optimiser.exp_avg_sq[i]);
    ++i;
  }
  for (const auto& entry : model.named_buffers())
    contents.arrays[entry.key()] = to_array(entry.value());
  Json metadata = {{"train", to_json(state)}};
  metadata.update(about);
  contents.metadata[kKey] = metadata.dump();
  add_checksum(contents);
  write_safetensors(file, contents);
}

Safetensors read_checkpoint(const fs::path& file) {
  Safetensors contents = read_safetensors(file);
  const Seal seal = seal_of(contents);
  if (!contents.metadata.contains(kKey) || seal == Seal::none)
    throw Error("{} is not a checkpoint of lacuna: it has no training state", file.string());
  if (seal == Seal::broken)
    throw Error("{} is damaged: its bytes are not those that were written", file.string());
  return contents;
}

void load_weights(const Safetensors& contents, const fs::path& file, torch::nn::Module& model,
                  const std::string& prefix) {
  for (const auto& entry : model.named_parameters())
    load_into(contents, file, prefix + entry.key(), entry.value());
  for (const auto& entry : model.named_buffers())
    load_into(contents, file, prefix + entry.key(), entry.value());
}

void load_weight(const Safetensors& contents, const fs::path& file, const std::string& name,
                 const at::Tensor& out) {
  load_into(contents, file, name, out);
}

void load_optimiser(const Safetensors& contents, const fs::path& file,
                    const torch::nn::Module& model, Optimiser& optimiser) {
  size_t i = 0;
  for (const auto& entry : model.named_parameters()) {
    load_into(contents, file, "optimizer.exp_avg." + entry.key(), optimiser.exp_avg[i]);
    load_into(contents, file, "optimizer.exp_avg_sq." + entry.key(), optimiser.exp_avg_sq[i]);
    ++i;
  }
  optimiser.set_steps(read_train_state(contents, file).step);
}

void read_member(const Safetensors& contents, const fs::path& file, const char* member,
                 const std::function<void(const Json&)>& read) {
  const auto found = contents.metadata.find(kKey);
  if (found == contents.metadata.end())
    throw Error("{} is not a checkpoint of lacuna: it has no training state", file.string());
  try {
    read(parse_json(found->second, file.string()).at(member));
  } catch (const Json::exception&) {
    throw Error("{}: '{}' is missing or damaged", file.string(), member);
  }
}

TrainState read_train_state(const Safetensors& contents, const fs::path& file) {
  TrainState state;
  read_member(contents, file, "train", [&](const Json& json) {
    state.step = json.at("step").get<uint64_t>();
    state.epoch = json.at("epoch").get<uint64_t>();
    state.loader = loader_state_from_json(json.at("loader"));
    state.loss_sum = number_or(json.at("loss_sum"), 0);
    state.loss_count = json.at("loss_count").get<uint64_t>();
    for (const auto& [key, value] : json.items())
      if (key.starts_with(kBest)) state.best[key.substr(kBest.size())] = number_or(value, NAN);
    state.epochs_without_better = json.at("epochs_without_better").get<uint64_t>();
    state.seconds = json.at("seconds").get<double>();
  });
  return state;
}

Fingerprint read_fingerprint(const Safetensors& contents, const fs::path& file) {
  Fingerprint fingerprint;
  read_member(contents, file, "fingerprint",
              [&](const Json& json) { fingerprint = Fingerprint::from_json(json); });
  return fingerprint;
}

void check_fingerprint(const Fingerprint& trained, const Fingerprint& here, const fs::path& file,
                       const BoundTo& bound) {
  auto differing = trained.differing_parts(here);
  for (const std::string& part : here.differing_parts(trained))
    if (std::ranges::find(differing, part) == differing.end()) differing.push_back(part);
  if (differing.empty()) return;
  throw Error(
      "{} was trained on another {}: {} differ from those of {}; use the {} that it was trained "
      "on, or train anew",
      file.string(), bound.thing, fmt::join(differing, ", "), bound.name, bound.kind);
}

}  // namespace lacuna
