// Training: from a config to a run.
//
// A run that is interrupted, by a signal or by a crash, goes on where its last checkpoint stands,
// inside an epoch too. On the CPU its weights at the end are those of a run that was never
// interrupted, bit for bit (with the same number of threads, which the run's config keeps): the
// order of samples, the seed of dropout and the learning rate are pure functions of the step.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "lacuna/train/task.h"

namespace lacuna {

struct TrainRequest {
  fs::path out;              // the run's directory
  bool resume = false;       // go on with the run in `out` where there is one
  bool tensorboard = false;  // also event files, in out/tensorboard
  // Steps are timed before the first: for the number of threads, and to say how long it will take
  // (pace/pace.h).
  bool measure = false;
  std::string command = {};  // for run.json
  std::string version = {};  // of lacuna
};

enum class RunEnd { finished, stopped };  // stopped: "resume me"

// What a listener hears; all from the thread that trains.
struct TrainProgress {
  uint64_t step = 0, epoch = 0, epochs = 0;
  uint64_t sample = 0, samples = 0;  // of this epoch
  double loss = 0, lr = 0;
  std::vector<Score> scores = {};  // that the validation has
  double best = kUnknown;          // of the first of them; NaN before the first validation
  double samples_per_s = kUnknown, seconds_left = kUnknown;  // NaN until some steps were timed

  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
};

class TrainListener {
 public:
  virtual ~TrainListener() = default;
  virtual void note(const std::string& /*words*/) {}
  virtual void begin(const std::string& /*what is trained on what*/) {}
  // Every train.log_every steps, and every two seconds where those take longer.
  virtual void step(const TrainProgress& /*progress*/) {}
  virtual void epoch(const TrainProgress& /*progress*/, double /*train_loss*/,
                     const ValidationScores& /*validation*/) {}
  virtual Progress& progress() { return Progress::none(); }  // of other long work
};

// Trains, then evaluates (Task::evaluate()). Where it is asked to stop (core/system/stop.h), inside
// a step too, checkpoints/last is that of the last whole step, and the step is taken anew when the
// run goes on; before the run was begun nothing is written. A run that goes on keeps its config:
// another one is an Error that names the first setting that differs, with both values; only
// the places of data and store may be others, which the run's config then holds. Its data must be
// what the run was begun with (Task::check()). Throws Error for a config that cannot be, and when a
// loss is not finite: the message names the step and the samples of its batch, which are saved in
// out/bad_batch.json; the run's status is then "failed".
//
// All ranks of a group call it alike. Rank 0 alone writes, and its listener alone hears something.
// A signal to one of them stops them all, between two steps.
RunEnd train(const Config& config, const TrainRequest& request, TrainListener& listener,
             Group& group = Group::alone(), const TaskOpener& open = open_task);

}  // namespace lacuna
