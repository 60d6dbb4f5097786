#include "lacuna/train/step.h"

#include <ATen/ATen.h>

#include <cmath>
#if LACUNA_TORCH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#endif

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {
namespace {

#if LACUNA_TORCH_CUDA
constexpr bool kCanRecord = true;
#else
constexpr bool kCanRecord = false;
#endif
constexpr int64_t kWarmSteps = 3;  // before recording: libraries choose algorithms, memory settles

at::Tensor pointwise_loss(const std::string& kind, const at::Tensor& error) {
  if (kind == "mse") return error.square();
  if (kind == "huber") {
    const auto size = error.abs();
    return at::where(size.le(1), 0.5 * error.square(), size - 0.5);
  }
  if (kind == "logcosh")  // log cosh e = |e| + log(1 + exp(-2 |e|)) - log 2, without overflow
    return error.abs() + at::log1p(at::exp(-2 * error.abs())) - std::log(2.0);
  throw Error("there is no loss '{}'; there are mse, logcosh and huber", kind);
}

}  // namespace

at::Tensor batch_loss(const std::string& kind, const at::Tensor& predicted,
                      const at::Tensor& labels, const at::Tensor& weights) {
  const auto measured = labels.isnan().logical_not();
  const auto error = at::where(measured, predicted - labels.to(predicted.scalar_type()), 0);
  auto share = measured.to(predicted.scalar_type());
  if (weights.defined()) share = share * weights.to(predicted.scalar_type()).unsqueeze(1);
  return (pointwise_loss(kind, error) * share).sum() / share.sum().clamp_min(1e-12);
}

#if LACUNA_TORCH_CUDA
struct Stepper::Recording {
  DeviceBatch batch;  // what a replay reads
  at::cuda::CUDAGraph graph;
};

void Stepper::replay(const DeviceBatch& batch, uint64_t epoch) {
  if (!recording_) {
    recording_ = std::make_unique<Recording>();
    recording_->batch = clone(batch);
    const at::Device device = batch.labels.device();
    // What earlier steps and recordings left cached cannot be taken back while recording.
    at::getDeviceAllocator(device.type())->emptyCache();
    const c10::StreamGuard guard(  // a recording needs a stream of its own
        c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
    const Unstoppable whole;  // a recording that breaks off leaves the stream recording
    recording_->graph.capture_begin();
    compute(recording_->batch, epoch, /*is_last=*/true, /*share=*/1);
    recording_->graph.capture_end();
    // cuBLAS took its workspace from the recording's memory, and would hold on to all of that when
    // the recording has ended. Replays keep using the place; nobody else gets it before their end.
    at::cuda::clearCublasWorkspaces();
  }
  copy(batch, recording_->batch);
  recording_->graph.replay();
}
#else
struct Stepper::Recording {};
void Stepper::replay(const DeviceBatch&, uint64_t) { LACUNA_ASSERT(kCanRecord); }
#endif

Stepper::Stepper(Model& model, Optimiser& optimiser, const TrainOptions& options, bool may_record)
    : model_(model), optimiser_(optimiser), options_(options), may_record_(may_record) {
  const auto device = at::TensorOptions(model.parameters().at(0).device());
  step_ = at::zeros({}, device.dtype(at::kLong));
  first_bad_ = at::full({}, -1, device.dtype(at::kLong));
  loss_sum_ = at::zeros({}, device.dtype(at::kDouble));
  loss_sum_before_ = at::zeros({}, device.dtype(at::kDouble));
  last_loss_ = at::zeros({}, device.dtype(at::kDouble));
  last_norm_ = at::zeros({}, device.dtype(at::kDouble));
}

Stepper::~Stepper() = default;

void Stepper::compute(const DeviceBatch& batch, uint64_t epoch, bool is_last, double share) {
  at::Tensor loss;
  {
    const Scope scope("forward");
    const at::Tensor predicted = model_.forward(batch.input);
    loss = model_.total_loss(batch_loss(options_.loss, predicted, batch.labels, batch.weights),
                             int64_t(epoch));
  }
  {
    const Scope scope("backward");
    (loss * share).backward();
  }
  throw_if_stopped();  // for the last time: from here on the step is taken
  const Scope scope("optimiser");
  const at::NoGradGuard guard;
  last_loss_.copy_(loss);
  loss_sum_.add_(last_loss_, double(batch.size()));
  if (is_last) last_norm_.copy_(optimiser_.update());
  const auto is_bad = at::isfinite(last_loss_ + last_norm_).logical_not();
  first_bad_.copy_(at::where(is_bad.logical_and(first_bad_.lt(0)), step_, first_bad_));
}

void Stepper::run(const DeviceBatch& batch, uint64_t number, int64_t index, bool is_last,
                  uint64_t epoch, double lr, double share) {
  is_in_step_ = true;
  if (index == 0 && options_.accumulate > 1) loss_sum_before_.copy_(loss_sum_);
  at::manual_seed(mix64(options_.seed + mix64(mix64(number) + uint64_t(index))));
  step_.fill_(int64_t(number));
  optimiser_.set_learning_rate(lr);
  const bool fits = may_record_ && batch.input.ptr.is_cuda() && model_.is_static() &&
                    options_.accumulate == 1 && batch.size() == options_.batch;
  if (kCanRecord && fits && ++warm_steps_ > kWarmSteps)
    replay(batch, epoch);
  else
    compute(batch, epoch, is_last, share);
  is_in_step_ = !is_last;
}

// The only batch of a step throws before it adds to the sum.
void Stepper::abandon_step() {
  if (!is_in_step_) return;
  is_in_step_ = false;
  optimiser_.clear_gradients();
  if (options_.accumulate > 1) loss_sum_.copy_(loss_sum_before_);
}

bool Stepper::is_recorded() const { return recording_ != nullptr; }

double Stepper::loss_sum() const { return loss_sum_.item<double>(); }

void Stepper::clear_sums() { loss_sum_.zero_(); }

double Stepper::last_loss() const { return last_loss_.item<double>(); }

double Stepper::last_norm() const { return last_norm_.item<double>(); }

int64_t Stepper::first_bad_step() const { return first_bad_.item<int64_t>(); }

}  // namespace lacuna
