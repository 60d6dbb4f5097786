// One training step: forward, loss, backward, clipping, update.
//
// On a GPU a step over a full batch is recorded once as a CUDA graph and replayed: hundreds of
// launches become one. What changes from step to step (genes, labels, learning rate, the seed of
// dropout) stands in tensors. Batches of another size, models that are not static and several
// batches a step run as they come. Only a build against a CUDA torch can record; is_recorded()
// tells whether it was done.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "lacuna/nn/model.h"
#include "lacuna/run/config.h"
#include "lacuna/train/batch_feed.h"
#include "lacuna/train/optimiser.h"

namespace lacuna {

// Mean over the measured labels of a batch, times the sample's weight: predicted and labels [B, L]
// (standardised; NaN = not measured), weights [B] or undefined -> scalar; 0 where none is measured.
//   mse      (p - y)^2
//   logcosh  log(cosh(p - y))
//   huber    (p - y)^2 / 2 within 1, else |p - y| - 1/2
at::Tensor batch_loss(const std::string& kind, const at::Tensor& predicted,
                      const at::Tensor& labels, const at::Tensor& weights);

class Stepper {
 public:
  // model and optimiser outlive it. may_record: false keeps every step as it comes, for a profile.
  Stepper(Model& model, Optimiser& optimiser, const TrainOptions& options, bool may_record = true);
  ~Stepper();

  // One batch of a step. number: of the step, from 0; index: of the batch within it; both seed
  // dropout. With is_last the step ends in an update. share: of the step's samples, what this batch
  // holds. The gradient is that of one batch with all of them where every label is measured and
  // samples have no weights; else only near it, since the loss of each batch is divided by what is
  // measured in that batch (and its weight), and share counts samples.
  void run(const DeviceBatch& batch, uint64_t number, int64_t index, bool is_last, uint64_t epoch,
           double lr, double share = 1);

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
  void compute(const DeviceBatch& batch, uint64_t epoch, bool is_last, double share);
  void replay(const DeviceBatch& batch, uint64_t epoch);

  Model& model_;
  Optimiser& optimiser_;
  TrainOptions options_;
  bool may_record_;
  int64_t warm_steps_ = 0;
  bool is_in_step_ = false;  // a batch of a step was begun, and the step has not ended
  at::Tensor step_, loss_sum_, last_loss_, last_norm_, first_bad_;  // scalars on the device
  at::Tensor loss_sum_before_;  // behind the last whole step, where a step has several batches
  std::unique_ptr<Recording> recording_;
};

}  // namespace lacuna
