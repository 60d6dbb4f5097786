#include "lacuna/train/step.h"

#include <ATen/ATen.h>
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

// Of dropout: another one for every batch. The same on every rank: each drops what one rank would
// (nn/layers.h).
uint64_t seed_of(uint64_t seed, const StepPart& part) {
  return mix64(seed + mix64(mix64(part.step) + uint64_t(part.index)));
}

}  // namespace

at::Tensor add_gradient(Task& task, const Batch& batch, uint64_t epoch, double share) {
  at::Tensor loss;
  {
    const Scope scope("forward");
    loss = task.loss(batch, epoch);
  }
  const Scope scope("backward");
  try {
    (loss * share).backward();
  } catch (...) {
    throw_if_stop_was_meant();
    throw;
  }
  return loss;
}

#if LACUNA_TORCH_CUDA
struct Stepper::Recording {
  std::unique_ptr<Batch> batch;  // what a replay reads
  at::cuda::CUDAGraph graph;
};

void Stepper::replay(const Batch& batch, const StepPart& part) {
  if (!recording_) {
    recording_ = std::make_unique<Recording>();
    recording_->batch = batch.clone();
    const at::Device device = step_.device();
    // What earlier steps and recordings left cached cannot be taken back while recording.
    at::getDeviceAllocator(device.type())->emptyCache();
    const c10::StreamGuard guard(  // a recording needs a stream of its own
        c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
    const Unstoppable whole;  // a recording that breaks off leaves the stream recording
    recording_->graph.capture_begin();
    compute(*recording_->batch, part, /*is_recorded=*/true);
    recording_->graph.capture_end();
    // cuBLAS took its workspace from the recording's memory, and would hold on to all of that when
    // the recording has ended. Replays keep using the place; nobody else gets it before their end.
    at::cuda::clearCublasWorkspaces();
  }
  recording_->batch->assign(batch);
  recording_->graph.replay();
}
#else
struct Stepper::Recording {};
void Stepper::replay(const Batch&, const StepPart&) { LACUNA_ASSERT(kCanRecord); }
#endif

Stepper::Stepper(Task& task, Optimiser& optimiser, bool may_record)
    : task_(task),
      optimiser_(optimiser),
      group_(task.group()),
      options_(task.config().train),
      may_record_(may_record) {
  const auto device = at::TensorOptions(task.model().parameters().at(0).device());
  step_ = at::zeros({}, device.dtype(at::kLong));
  first_bad_ = at::full({}, -1, device.dtype(at::kLong));
  loss_sum_ = at::zeros({}, device.dtype(at::kDouble));
  loss_sum_before_ = at::zeros({}, device.dtype(at::kDouble));
  last_loss_ = at::zeros({}, device.dtype(at::kDouble));
  last_norm_ = at::zeros({}, device.dtype(at::kDouble));
  if (group_.is_alone()) return;
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : task.model().parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  gradients_ = std::make_unique<GradientSum>(std::move(trained), group_);
}

Stepper::~Stepper() = default;

// Losses and gradients become those of the global batch: the mean over the ranks.
void Stepper::sum_over_ranks(bool with_gradients, bool is_recorded) {
  if (group_.is_alone()) return;
  std::vector<at::Tensor> all = {last_loss_};
  if (with_gradients) {
    gradients_->finish(last_loss_, is_recorded);
    for (const at::Tensor& gradient : optimiser_.gradients()) all.push_back(gradient);
  } else {
    group_.sum(all);
  }
  at::_foreach_div_(all, double(group_.world()));
}

void Stepper::compute(const Batch& batch, const StepPart& part, bool is_recorded) {
  if (gradients_ && part.is_last) gradients_->begin();
  const at::Tensor loss = add_gradient(task_, batch, part.epoch, part.share);
  throw_if_stopped();  // for the last time: from here on the step is taken
  const Scope scope("optimiser");
  const at::NoGradGuard guard;
  last_loss_.copy_(loss);
  sum_over_ranks(part.is_last, is_recorded);
  loss_sum_.add_(last_loss_, double(part.samples));
  if (part.is_last) last_norm_.copy_(optimiser_.update());
  const auto is_bad = at::isfinite(last_loss_ + last_norm_).logical_not();
  first_bad_.copy_(at::where(is_bad.logical_and(first_bad_.lt(0)), step_, first_bad_));
}

void Stepper::run(const Batch& batch, const StepPart& part) {
  is_in_step_ = true;
  if (part.index == 0 && options_.accumulate > 1) loss_sum_before_.copy_(loss_sum_);
  at::manual_seed(seed_of(options_.seed, part));
  task_.prepare_step(part.step);
  step_.fill_(int64_t(part.step));
  optimiser_.set_learning_rate(part.lr);
  // The same on all ranks, which replay together: a full batch has the same share of every rank.
  const bool fits = may_record_ && step_.is_cuda() && task_.is_static() &&
                    group_.can_be_recorded() && options_.accumulate == 1 &&
                    part.samples == uint64_t(options_.batch);
  if (kCanRecord && fits && ++warm_steps_ > kWarmSteps)
    replay(batch, part);
  else
    compute(batch, part);
  is_in_step_ = !part.is_last;
}

// The only batch of a step throws before it adds to the sum.
void Stepper::abandon_step() {
  if (!is_in_step_) return;
  is_in_step_ = false;
  if (gradients_) gradients_->abandon();
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
