// Training on a recording: windows of many sessions in the order that the config asks for, Poisson
// loss, bits per spike and correlation as scores.
#pragma once

#include <memory>
#include <string>

#include "lacuna/train/recording/window_feed.h"
#include "lacuna/train/task.h"

namespace lacuna {

class RecordingTask : public Task {
 public:
  explicit RecordingTask(RecordingSession session) : session_(std::move(session)) {}
  RecordingSession& session() { return session_; }

  Config& config() override { return session_.config; }
  Group& group() const override { return *session_.group; }
  torch::nn::Module& model() override { return *session_.model; }
  std::string words() const override;
  std::unique_ptr<Feed> training() override;
  at::Tensor loss(const Batch& batch, uint64_t epoch) override;
  // Batches differ in how many windows each session has.
  bool is_static() const override { return false; }
  std::vector<Score> scores() const override;
  // On about train.validation_windows windows, the same every time, of every session.
  ValidationScores validate() override;
  void evaluate(const Run& run, const Note& note, Progress& progress) override;
  const Fingerprint& fingerprint() const override { return session_.fingerprint; }
  Json description() const override;
  Json checkpoint() const override { return recording_checkpoint_members(session_); }
  void resume(const Safetensors& checkpoint, const fs::path& file) override;
  void check(const Run* trained, const Note& note) override;
  // RUN/windows.json: how many windows each part has, and their hash.
  void keep(const Run& run) const override;
  Json describe(std::span<const uint64_t> samples) const override;

 private:
  RecordingSession session_;
};

std::unique_ptr<Task> open_recording_task(const OpenTask& request);

}  // namespace lacuna
