#include "lacuna/nn/models/core_readout.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/run/model_settings.h"
#include "lacuna/torch/stop_point.h"
#include "lacuna/torch/windows.h"

namespace lacuna {
namespace core_readout {

constexpr const char* kDefaults = R"(
name: core_readout
channels: 64        # of the core
temporal: 16        # filters over the lags
layers: 3           # spatial convolutions
kernel: 5           # their width in pixels, odd
first_kernel: 9     # of the first of them
stride: 1           # of the first of them: 2 is a quarter of the work
behaviour_width: 16 # of the MLP on behaviour
)";

constexpr double kGrey = 127, kLevels = 255;
constexpr double kFirstSd = 0.15;    // of a unit's Gaussian
constexpr double kLeastRate = 1e-6;  // the logarithm of a rate is finite

at::Tensor kaiming(c10::IntArrayRef shape) {
  const double fan_in = double(shape[1] * shape[2] * shape[3]);
  return at::randn(shape) * std::sqrt(2.0 / fan_in);
}

int64_t odd(const Settings& settings, const char* key) {
  const int64_t value = settings.count(key, 1, 101);
  if (value % 2 == 0) throw Error("model.{} is {}; it must be odd", key, value);
  return value;
}

const bool known = [] {
  add_model_settings("core_readout", kDefaults, DataKind::recording);
  return true;
}();

}  // namespace core_readout

using namespace core_readout;

// To the bit what the loader's threads make of bytes. Torch on a GPU multiplies by 1 / 255 where it
// divides by a number, which is another result for half of all grey levels; by a tensor it divides.
at::Tensor pixels_to_numbers(const at::Tensor& stimulus, at::ScalarType dtype) {
  if (stimulus.scalar_type() != at::kByte) return stimulus.to(dtype);
  if (stimulus.is_cuda() && dtype != at::kDouble) {  // one pass: every frame a window of its own
    const at::Tensor frames = stimulus.flatten(0, 1);
    const auto each = at::arange(frames.size(0), stimulus.options().dtype(at::kLong));
    return gather_windows(frames, each, /*lags=*/1, /*step=*/1, dtype).view(stimulus.sizes());
  }
  const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto levels = at::full({}, kLevels, stimulus.options().dtype(wide));
  return ((stimulus.to(wide) - kGrey) / levels).to(dtype);
}

Readout::Readout(const RecordingShape::Readout& shape, int64_t channels, int64_t hidden) {
  position = register_parameter("position", at::randn({shape.units, 2}) * 0.05);
  log_sd = register_parameter("log_sd", at::full({shape.units}, std::log(kFirstSd)));
  weight = register_parameter("weight", at::randn({shape.units, channels}) * kScoreStd);
  bias = register_parameter("bias", at::zeros({shape.units}));
  if (shape.inputs == 0) return;
  first_ = register_module("first", std::make_shared<Dense>(shape.inputs, hidden));
  second_ = register_module("second", std::make_shared<Dense>(hidden, shape.units, kScoreStd));
}

at::Tensor Readout::places(int64_t height, int64_t width) const {
  const auto along = [&](int64_t axis, int64_t size) {  // [units, size]
    const auto at = at::linspace(-1, 1, size, position.options().requires_grad(false));
    const auto away =
        (at.unsqueeze(0) - position.select(1, axis).unsqueeze(1)) / log_sd.exp().unsqueeze(1);
    return at::softmax(-0.5 * away.square(), 1);  // a Gaussian that sums to 1
  };
  return along(0, height).unsqueeze(2) * along(1, width).unsqueeze(1);
}

at::Tensor Readout::forward(const at::Tensor& map, const at::Tensor& inputs) const {
  const auto dtype = map.scalar_type();
  const auto flat = map.flatten(2);                                                 // [b, C, P]
  const auto places = this->places(map.size(2), map.size(3)).flatten(1).to(dtype);  // [units, P]
  const auto seen = at::matmul(flat, places.t()).to(weight.scalar_type());          // [b, C, units]
  auto drive = (seen * weight.t()).sum(1) + bias;
  if (first_)
    drive = drive + second_->forward(at::gelu(first_->forward(inputs.to(weight.scalar_type()))));
  stop_point(drive);
  return drive;
}

CoreReadout::CoreReadout(const YAML::Node& node, const RecordingShape& shape) : shape_(shape) {
  const Settings settings(node, "model");
  const int64_t channels = settings.count("channels", 1, kMostWidth);
  const int64_t temporal = settings.count("temporal", 1, kMostWidth);
  const int64_t layers = settings.count("layers", 1, 16);
  const int64_t hidden = settings.count("behaviour_width", 1, kMostWidth);
  stride_ = settings.count("stride", 1, 16);
  temporal_ = register_parameter("temporal", kaiming({temporal, shape.lags, 1, 1}));
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t k = odd(settings, i == 0 ? "first_kernel" : "kernel");
    kernels_.push_back(register_parameter("kernel" + std::to_string(i),
                                          kaiming({channels, i == 0 ? temporal : channels, k, k})));
    biases_.push_back(register_parameter("bias" + std::to_string(i), at::zeros({channels})));
  }
  for (const RecordingShape::Readout& session : shape.sessions)
    readouts_.push_back(register_module(readout_name(int64_t(readouts_.size())),
                                        std::make_shared<Readout>(session, channels, hidden)));
}

std::string CoreReadout::readout_name(int64_t session) const {
  std::string name = "readout " + shape_.sessions.at(size_t(session)).session;
  std::replace(name.begin(), name.end(), '.', '_');  // torch gives '.' a meaning of its own
  return name;
}

int64_t CoreReadout::target_rows(const at::Tensor& stimulus) const {
  return stimulus.size(1) - shape_.lags + 1;
}

// x [B, lags + T - 1, Y, X] -> [B T, temporal, Y, X]
at::Tensor CoreReadout::over_lags(const at::Tensor& x) const {
  const at::Tensor weight = temporal_.to(x.scalar_type());
  const int64_t rows = target_rows(x);
  LACUNA_ASSERT(rows >= 1);
  if (rows == 1) return at::conv2d(x, weight);
  // Time down, pixels across: a window's rows share what they have in common.
  const at::Tensor found =
      at::conv2d(x.flatten(2).unsqueeze(1), weight.view({-1, 1, shape_.lags, 1}));
  return found.flip(2).transpose(1, 2).reshape(  // oldest first
      {x.size(0) * rows, weight.size(0), x.size(2), x.size(3)});
}

at::Tensor CoreReadout::core(const at::Tensor& stimulus) const {
  const auto dtype = dtype_.value_or(temporal_.scalar_type());
  at::Tensor x;
  {
    const Scope scope("cast");
    x = pixels_to_numbers(stimulus, dtype);
  }
  const Scope scope("core");
  x = over_lags(x);
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const int64_t pad = kernels_[i].size(2) / 2, stride = i == 0 ? stride_ : 1;
    x = at::gelu(at::conv2d(x, kernels_[i].to(dtype), biases_[i].to(dtype), stride, pad));
    stop_point(x);
  }
  return x;
}

std::vector<at::Tensor> CoreReadout::drive(const WindowInput& input) const {
  LACUNA_ASSERT(input.sessions.size() + 1 == input.ptr.size());
  const at::Tensor map = core(input.stimulus);
  const Scope scope("readout");
  const int64_t rows = target_rows(input.stimulus);
  std::vector<at::Tensor> drives;
  for (size_t s = 0; s < input.sessions.size(); ++s) {
    const int64_t first = input.ptr[s] * rows, last = input.ptr[s + 1] * rows;
    drives.push_back(readouts_.at(size_t(input.sessions[s]))
                         ->forward(map.narrow(0, first, last - first), input.inputs.at(s)));
  }
  return drives;
}

at::Tensor CoreReadout::rate_of(const at::Tensor& drive) {
  return at::softplus(drive) + kLeastRate;
}

std::vector<at::Tensor> CoreReadout::forward(const WindowInput& input) const {
  std::vector<at::Tensor> rates = drive(input);
  for (at::Tensor& rate : rates) rate = rate_of(rate);
  return rates;
}

void CoreReadout::start_at(int64_t session, const at::Tensor& mean) {
  const at::NoGradGuard guard;
  const auto rate = mean.to(at::kDouble).clamp_min(1e-4);
  readout(session).bias.copy_(at::log(at::expm1(rate)));  // softplus of it is the rate
}

void CoreReadout::place_at(int64_t session, const at::Tensor& position) {
  const at::NoGradGuard guard;
  readout(session).position.copy_(position);
}

void CoreReadout::freeze_core() {
  for (at::Tensor parameter : parameters(/*recurse=*/false)) parameter.set_requires_grad(false);
}

int64_t CoreReadout::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<CoreReadout> make_core_readout(YAML::Node settings, const RecordingShape& shape,
                                               at::Device device, uint64_t seed) {
  complete_model(settings, DataKind::recording);
  at::manual_seed(seed);
  auto model = std::make_shared<CoreReadout>(settings, shape);
  model->to(device);
  return model;
}

PoissonLoss poisson_loss(const std::vector<at::Tensor>& rates,
                         const std::vector<at::Tensor>& counts,
                         const std::vector<at::Tensor>& validity) {
  PoissonLoss loss;
  for (size_t s = 0; s < rates.size(); ++s) {
    const auto dtype = rates[s].scalar_type();
    const auto valid = validity[s].to(dtype);
    // An invalid count may be anything, also NaN: it is replaced before it can touch a gradient.
    const auto count = at::where(valid.gt(0), counts[s].to(dtype), 0);
    const auto sum = ((rates[s] - count * rates[s].log()) * valid).sum();
    loss.sum = s == 0 ? sum : loss.sum + sum;
    loss.valid = s == 0 ? valid.sum() : loss.valid + valid.sum();
  }
  return loss;
}

}  // namespace lacuna
