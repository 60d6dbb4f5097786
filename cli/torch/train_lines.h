// What people see of a training: a line that is rewritten in place, and one a finished epoch.
#pragma once

#include <chrono>
#include <string>

#include "cli/terminal.h"
#include "lacuna/run/evaluation/recording_evaluation.h"
#include "lacuna/train/trainer.h"

namespace lacuna::cli {

class TrainLines : public TrainListener {
 public:
  TrainLines();
  ~TrainLines() override;
  TrainLines(const TrainLines&) = delete;
  TrainLines& operator=(const TrainLines&) = delete;
  void note(const std::string& words) override;
  void begin(const std::string& what) override;
  void step(const TrainProgress& progress) override;
  void epoch(const TrainProgress& progress, double train_loss,
             const ValidationScores& validation) override;
  Progress& progress() override { return progress_; }

  void clear_line();  // before something else is printed

 private:
  using Clock = std::chrono::steady_clock;
  void print(const std::string& line);

  bool is_terminal_;
  bool shown_ = false, has_printed_step_ = false;
  Clock::time_point printed_;  // when the last line that stays was
  TerminalProgress progress_;
};

// Tables of all parts, for `train` and `evaluate`.
void print_recording_evaluation(const RecordingEvaluation& evaluation);

}  // namespace lacuna::cli
