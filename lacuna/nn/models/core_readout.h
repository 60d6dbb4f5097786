// CoreReadout, the model of recordings: one convolutional core for all sessions, and one readout a
// session, whose units differ.
//
//   window [B, lags + T - 1, Y, X] u8, newest first: T consecutive target rows
//     -> (x - 127) / 255
//     -> a convolution over the lags, at each pixel     [B T, temporal, Y, X]
//     -> spatial convolutions, each with GELU           [B T, channels, Y', X']
//     -> of each unit: the mean of the map under a Gaussian at the unit's place [channels],
//        times its weights, plus its bias, plus what a small MLP makes of behaviour
//     -> softplus: the rate, expected counts a bin
//
// The core runs once over the whole block of a batch; session s has the windows ptr[s] to
// ptr[s + 1] - 1. Rates of a window's T rows stand one after another, oldest first; a row's rate
// is the same in every window that has it. Most have T = 1.
#pragma once

#include <torch/nn/module.h>
#include <yaml-cpp/yaml.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/nn/layers.h"

namespace lacuna {

// What a model of recordings is told about its data.
struct RecordingShape {
  struct Readout {
    std::string session;
    int64_t units = 0;
    int64_t inputs = 0;  // numbers of behaviour, spike history, .. a window; 0: none
  };
  int64_t lags = 0, height = 0, width = 0;
  std::vector<Readout> sessions;
};

// A batch of windows as the model reads it.
struct WindowInput {
  // [B, lags + T - 1, Y, X] u8 as recorded, or floats that are normalised already
  at::Tensor stimulus;
  std::vector<int64_t> sessions;   // [S] numbers in RecordingShape::sessions
  std::vector<int64_t> ptr = {0};  // [S + 1]
  std::vector<at::Tensor> inputs;  // [S] each [b T, inputs]; undefined where a session has none

  int64_t batch() const { return ptr.back(); }
};

// Bytes as (x - 127) / 255, a true division on every device; numbers are only cast.
at::Tensor pixels_to_numbers(const at::Tensor& stimulus, at::ScalarType dtype);

// The units of one session.
class Readout : public torch::nn::Module {
 public:
  Readout(const RecordingShape::Readout& shape, int64_t channels, int64_t hidden);
  // map [b, C, Y', X'], inputs [b, K] or undefined -> before the softplus, [b, units]
  at::Tensor forward(const at::Tensor& map, const at::Tensor& inputs) const;
  // Weights of the places of a map, each unit's sum is 1: [units, Y', X']
  at::Tensor places(int64_t height, int64_t width) const;

  at::Tensor position, log_sd;  // [units, 2] y and x, [units]; the map reaches from -1 to 1
  at::Tensor weight, bias;      // [units, C], [units]

 private:
  std::shared_ptr<Dense> first_, second_;  // of the inputs; null: none
};

class CoreReadout : public torch::nn::Module {
 public:
  CoreReadout(const YAML::Node& settings, const RecordingShape& shape);

  // [B, lags + T - 1, Y, X] -> [B T, C, Y', X']
  at::Tensor core(const at::Tensor& stimulus) const;
  // Before the softplus: [S] each [b T, units].
  std::vector<at::Tensor> drive(const WindowInput& input) const;
  // Rates, [S] each [b T, units]; above 0. f32, or f64 where the parameters are.
  std::vector<at::Tensor> forward(const WindowInput& input) const;
  static at::Tensor rate_of(const at::Tensor& drive);

  // Starts the biases of a session where its rates are `mean` [units], counts a bin.
  void start_at(int64_t session, const at::Tensor& mean);
  // Starts the places of a session's units: [units, 2], y and x from -1 to 1.
  void place_at(int64_t session, const at::Tensor& position);
  // The core's weights stay as they are.
  void freeze_core();
  // bf16: maps and products in bf16, parameters as they are. undefined: as the parameters.
  void compute_in(std::optional<at::ScalarType> dtype) { dtype_ = dtype; }

  const RecordingShape& shape() const { return shape_; }
  int64_t target_rows(const at::Tensor& stimulus) const;  // T
  std::string readout_name(int64_t session) const;        // of its module: "readout m1"
  Readout& readout(int64_t session) { return *readouts_.at(size_t(session)); }
  int64_t parameter_count() const;

 private:
  at::Tensor over_lags(const at::Tensor& x) const;

  RecordingShape shape_;
  int64_t stride_;
  at::Tensor temporal_;                       // [temporal, lags, 1, 1]; no bias: grey stays 0
  std::vector<at::Tensor> kernels_, biases_;  // [C, in, k, k], [C]
  std::vector<std::shared_ptr<Readout>> readouts_;
  std::optional<at::ScalarType> dtype_;
};

// As `settings` ask (what they leave out is added), on a device, with weights drawn from `seed`,
// the same on every device. Throws Error naming an unknown key or value.
std::shared_ptr<CoreReadout> make_core_readout(YAML::Node settings, const RecordingShape& shape,
                                               at::Device device, uint64_t seed);

// Mean over the valid counts of rate - count * log(rate): [S] rates, counts and validity (0 or 1),
// each [b T, units] -> the sum, and how many are valid; both scalars.
struct PoissonLoss {
  at::Tensor sum, valid;
};
PoissonLoss poisson_loss(const std::vector<at::Tensor>& rates,
                         const std::vector<at::Tensor>& counts,
                         const std::vector<at::Tensor>& validity);

}  // namespace lacuna
