// Training on a screen: the batches of its rung, the loss of its labels, Pearson and MSE as scores.
#pragma once

#include <memory>
#include <string>

#include "lacuna/train/batch_feed.h"
#include "lacuna/train/session.h"
#include "lacuna/train/task.h"

namespace lacuna {

class ScreenTask : public Task {
 public:
  explicit ScreenTask(ScreenSession session) : session_(std::move(session)) {}
  ScreenSession& session() { return session_; }

  Config& config() override { return session_.config; }
  Group& group() const override { return *session_.group; }
  torch::nn::Module& model() override { return *session_.model; }
  std::string words() const override;
  std::unique_ptr<Feed> training() override;
  void prepare_step(uint64_t step) override;
  at::Tensor loss(const Batch& batch, uint64_t epoch) override;
  bool is_static() const override { return session_.model->is_static(); }
  std::vector<Score> scores() const override;
  ValidationScores validate() override;
  void evaluate(const Run& run, const Note& note, Progress& progress) override;
  const Fingerprint& fingerprint() const override { return session_.fingerprint; }
  Json description() const override;
  Json checkpoint() const override { return checkpoint_members(session_); }
  void resume(const Safetensors& checkpoint, const fs::path& file) override;
  void check(const Run* trained, const Note& note) override;
  void keep(const Run& run) const override;
  Json describe(std::span<const uint64_t> samples) const override;

 private:
  ScreenSession session_;
};

std::unique_ptr<ScreenTask> open_screen_task(const OpenTask& request);

// How the session's config feeds batches to the model, with the samples' weights where it names a
// column.
FeedOptions feed_options(const ScreenSession& session);

// Mean over the measured labels of a batch, times the sample's weight: predicted and labels [B, L]
// (standardised; NaN = not measured), weights [B] or undefined -> scalar; 0 where none is measured.
//   mse      (p - y)^2
//   logcosh  log(cosh(p - y))
//   huber    (p - y)^2 / 2 within 1, else |p - y| - 1/2
// Of several ranks, each gives its part of the sum times their number: the mean over the ranks is
// the loss of the global batch.
at::Tensor batch_loss(const std::string& kind, const at::Tensor& predicted,
                      const at::Tensor& labels, const at::Tensor& weights,
                      Group& group = Group::alone());

}  // namespace lacuna
