// One training step: forward, loss, backward, the sum over ranks, clipping, update.
//
// On a GPU a step over a full batch is recorded once as a CUDA graph and replayed: hundreds of
// launches become one. What changes from step to step (the batch, the learning rate, the seed of
// dropout, hidden genes) stands in tensors. Several ranks record and replay together, the sums over
// them included, where NCCL computes these on the GPUs. Batches of another size, tasks that are not
// static, several batches a step and ranks over gloo run as they come. Only a build against a CUDA
// torch can record; is_recorded() tells whether it was done.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "lacuna/train/optimiser.h"
#include "lacuna/train/ranks/gradient_sum.h"
#include "lacuna/train/task.h"

namespace lacuna {

// Adds `share` times the gradient of a batch's loss to the gradients of the model, and gives the
// loss. The only caller of backward().
at::Tensor add_gradient(Task& task, const Batch& batch, uint64_t epoch, double share = 1);

// Which batch of which step.
struct StepPart {
  uint64_t step = 0;    // from 0
  int64_t index = 0;    // of the batch within the step; both seed dropout
  bool is_last = true;  // the step ends in an update
  uint64_t epoch = 0;
  double lr = 0;
  // Of the step's samples, what this batch holds. The gradient is that of one batch with all of
  // them where every label is measured and samples have no weights; else only near it, since the
  // loss of each batch is divided by what is measured in that batch (and its weight), and share
  // counts samples.
  double share = 1;
  uint64_t samples = 0;  // of this batch, on all ranks
};

class Stepper {
 public:
  // task and optimiser outlive it. may_record: false keeps every step as it comes, for a profile.
  Stepper(Task& task, Optimiser& optimiser, bool may_record = true);
  ~Stepper();

  void run(const Batch& batch, const StepPart& part);

  // After run() has thrown Stopped, or where no further batch of a step will come: model, optimiser
  // and sums are those behind the last whole step.
  void abandon_step();

  bool is_recorded() const;
  // Since the last call of clear_sums(): the losses of all batches times their sizes. Waits for the
  // device.
  double loss_sum() const;
  void clear_sums();
  // The loss and the gradient's norm of the last step. Waits for the device.
  double last_loss() const;
  double last_norm() const;
  // The first step whose loss or gradient was not finite, or -1. Waits for the device.
  int64_t first_bad_step() const;

 private:
  struct Recording;
  void compute(const Batch& batch, const StepPart& part, bool is_recorded = false);
  void replay(const Batch& batch, const StepPart& part);
  void sum_over_ranks(bool with_gradients, bool is_recorded);

  Task& task_;
  Optimiser& optimiser_;
  Group& group_;
  const TrainOptions& options_;
  bool may_record_;
  int64_t warm_steps_ = 0;
  bool is_in_step_ = false;  // a batch of a step was begun, and the step has not ended
  at::Tensor step_, loss_sum_, last_loss_, last_norm_, first_bad_;  // scalars on the device
  at::Tensor loss_sum_before_;  // behind the last whole step, where a step has several batches
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<GradientSum> gradients_;  // of several ranks
};

}  // namespace lacuna
