// What one kind of data gives a training: its batches, its loss, its scores, and what a checkpoint
// is bound to. The trainer, checkpoints and the profile know nothing else of it.
//
// A Task is opened for one rank of a Group and owns what it opened: the data, the graph, the model
// on its device. Screens are the first kind (screen_task.h).
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/load/loader.h"
#include "lacuna/run/config.h"
#include "lacuna/run/run.h"
#include "lacuna/store/fingerprint.h"
#include "lacuna/store/safetensors.h"
#include "lacuna/train/group.h"

namespace lacuna {

// This rank's share of a global batch, on the model's device. Each kind of data has its own.
struct Batch {
  virtual ~Batch() = default;
  virtual int64_t size() const = 0;                  // samples
  virtual std::unique_ptr<Batch> clone() const = 0;  // with tensors of its own
  virtual void assign(const Batch& other) = 0;  // the contents of one of the same sizes; no waiting
};

// The training batches in the order of load/order.h.
class Feed {
 public:
  virtual ~Feed() = default;
  // The next batch, valid until the one after it is asked for; null at the end of an epoch.
  virtual const Batch* next() = 0;
  // Behind the last batch that was given out: what a checkpoint keeps. seek() goes there.
  virtual const LoaderState& state() const = 0;
  virtual void seek(const LoaderState& state) = 0;
  // The numbers of the samples of a global batch, of all ranks together.
  virtual std::vector<uint64_t> samples(uint64_t epoch, uint64_t position) const = 0;
};

struct Score {
  std::string name, title;  // "mse", "MSE"
  bool higher_is_better;
};

// How an epoch did on the validation part.
struct ValidationScores {
  // In the order of Task::scores(). NaN: the epoch is not the best. Empty: nothing to validate on.
  std::vector<double> values = {};
  // The same and more of each label (or session): {"fitness": {"count": 9, "mse": 0.1, ..}, ..};
  // NaN where a score is not defined
  Json parts = Json::object();
};

class Task {
 public:
  virtual ~Task() = default;
  virtual Config& config() = 0;  // with what the data and the model have added to it
  virtual Group& group() const = 0;
  virtual torch::nn::Module& model() = 0;
  virtual std::string words() const = 0;  // "mlp with 961 parameters on cpu"

  // ---- training
  virtual std::unique_ptr<Feed> training() = 0;  // the Task outlives it
  // Before every batch of step number `step`. What it changes of the model stands in tensors that
  // stay where they are, because the step may be a recorded one.
  virtual void prepare_step(uint64_t) {}
  // What is minimised, a scalar: its mean over the ranks is the loss of the global batch.
  virtual at::Tensor loss(const Batch& batch, uint64_t epoch) = 0;
  // Whether every step computes the same but for its batch, so that it can be recorded (step.h).
  virtual bool is_static() const { return true; }

  // ---- validation and evaluation, by all ranks together
  // Each has its best epoch kept in checkpoints/best_NAME; the first one decides about patience.
  virtual std::vector<Score> scores() const = 0;
  virtual ValidationScores validate() = 0;
  // Of a finished run, with what is open here: writes evaluation.json and what belongs to it.
  virtual void evaluate(const Run& run, const Note& note, Progress& progress) = 0;

  // ---- what a run says about its data, and is bound to
  virtual const Fingerprint& fingerprint() const = 0;
  virtual Json description() const = 0;  // members of run.json: {"screen": {"path": .., ..}}
  virtual Json checkpoint() const = 0;   // members of a checkpoint beside weights and fingerprint
  // Takes those up again. Throws Error that names what differs where the checkpoint is of other
  // data (check_fingerprint() in checkpoint.h).
  virtual void resume(const Safetensors& checkpoint, const fs::path& file) = 0;
  // Throws Error for what would fail later and can be seen now. trained: a run with a checkpoint
  // that is to go on, or null.
  virtual void check(const Run* trained, const Note& note) = 0;
  virtual void keep(const Run& run) const = 0;  // writes what check() of a later start compares
  // What somebody who looks for a bad sample wants to see: {"removed": [["A", "B"], ..]}
  virtual Json describe(std::span<const uint64_t> samples) const = 0;
};

struct OpenTask {
  const Config& config;
  const Note& note;
  Progress& progress = Progress::none();
  Group& group = Group::alone();
  const Run* run = nullptr;  // that is to go on
};
using TaskOpener = std::function<std::unique_ptr<Task>(const OpenTask&)>;
// The data that a config names, with new weights; `train.batch: auto` is found.
std::unique_ptr<Task> open_task(const OpenTask& request);

}  // namespace lacuna
