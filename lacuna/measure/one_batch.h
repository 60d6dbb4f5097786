// A feed that gives the same batch again and again: steps without loading.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lacuna/train/task.h"

namespace lacuna {

class OneBatch : public Feed {
 public:
  OneBatch(std::unique_ptr<Batch> batch, std::vector<uint64_t> samples)
      : batch_(std::move(batch)), samples_(std::move(samples)) {
    state_.samples = state_.global_batch = uint64_t(batch_->size());
    state_.position = 1;
  }
  const Batch* next() override { return batch_.get(); }
  const LoaderState& state() const override { return state_; }
  void seek(const LoaderState&) override {}
  std::vector<uint64_t> samples(uint64_t, uint64_t) const override { return samples_; }

 private:
  std::unique_ptr<Batch> batch_;
  std::vector<uint64_t> samples_;
  LoaderState state_;
};

// The first training batch of a task, where the model computes.
inline std::unique_ptr<Feed> ready_batch(Task& task) {
  const auto feed = task.training();
  return std::make_unique<OneBatch>(feed->next()->clone(), std::vector<uint64_t>());
}

}  // namespace lacuna
