#include "lacuna/train/mlp_baseline.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lacuna/core/system/stop.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/screen_task.h"

namespace lacuna {
namespace {

constexpr int64_t kEpochs = 30, kEpochsWithoutValidation = 10, kPatience = 5;
constexpr int64_t kLeastBatch = 16, kMostBatch = 256, kBatchesPerEpoch = 64;
constexpr int64_t kPredictBatch = 4096;

// Standardised, so that labels of any unit count alike. NaN where nothing was measured.
double mean_squared_error(const Predictions& found, const LabelScale& labels) {
  double sum = 0;
  uint64_t count = 0;
  for (uint64_t i = 0; i < found.measured.size(); ++i) {
    if (std::isnan(found.measured[i])) continue;
    const double error = (found.predicted[i] - found.measured[i]) / labels.sd[i % labels.size()];
    sum += error * error;
    ++count;
  }
  return sum / double(count);
}

bool has_validation_labels(const ScreenSession& session) {
  const auto labels = session.screen.samples().labels.as<float>();  // [S, L]
  const uint64_t stride = session.screen.samples().label_count();
  for (const uint64_t sample : session.samples(Part::validation))
    for (const uint64_t column : session.labels.columns)
      if (!std::isnan(labels[sample * stride + column])) return true;
  return false;
}

std::vector<at::Tensor> copy_parameters(const Model& model) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : model.parameters())
    copies.push_back(parameter.detach().clone());
  return copies;
}

void set_parameters(Model& model, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard guard;
  const auto parameters = model.parameters();
  for (size_t i = 0; i < values.size(); ++i) parameters[i].copy_(values[i]);
}

TrainOptions options_for(const ScreenSession& like) {
  TrainOptions options = parse_config("screen: any", {}).train;
  options.seed = like.config.train.seed;
  options.weight_column = like.config.train.weight_column;
  options.device = like.config.train.device;
  options.batch = std::clamp(int64_t(like.samples(Part::train).size()) / kBatchesPerEpoch,
                             kLeastBatch, kMostBatch);
  options.threads = 1;
  options.lr = 1e-3;
  options.warmup_steps = 0;
  options.restart_epochs = kEpochs;
  options.restart_factor = 1;
  options.accumulate = 1;
  options.loss = "mse";
  return options;
}

}  // namespace

ScreenSession train_mlp_baseline(const ScreenSession& like, Progress& progress) {
  ScreenTask task(like);
  ScreenSession& session = task.session();
  session.config.train = options_for(like);
  session.masks = RungMasks();  // it reads genes alone
  YAML::Node settings;
  settings["name"] = "mlp";
  session.model =
      make_model(settings, like.graph, int64_t(like.labels.size()), like.config.train.seed);
  Loop loop(task);
  const bool has_validation = has_validation_labels(session);
  const int64_t epochs = has_validation ? kEpochs : kEpochsWithoutValidation;
  double best = std::numeric_limits<double>::infinity();
  std::vector<at::Tensor> best_parameters = copy_parameters(*session.model);
  int64_t without_better = 0;
  progress.begin("training the MLP baseline", uint64_t(epochs), "epochs");
  for (int64_t epoch = 0; epoch < epochs && without_better < kPatience; ++epoch) {
    while (loop.step()) throw_if_stopped();
    progress.advance(uint64_t(epoch) + 1);
    if (!has_validation) continue;
    const double error = mean_squared_error(
        predict_samples(session, session.samples(Part::validation), kPredictBatch), session.labels);
    without_better = error < best ? 0 : without_better + 1;
    if (error < best) best_parameters = copy_parameters(*session.model);
    best = std::min(best, error);
  }
  progress.end();
  if (has_validation) set_parameters(*session.model, best_parameters);
  return session;
}

}  // namespace lacuna
