// What people see of a training: a line that is rewritten in place, and one a finished epoch.
#pragma once

#include <chrono>
#include <string>

#include "cli/terminal.h"
#include "lacuna/train/trainer.h"

namespace lacuna::cli {

class TrainLines : public TrainListener {
 public:
  TrainLines();
  void note(const std::string& words) override;
  void begin(const std::string& what) override;
  void step(const TrainProgress& progress) override;
  void epoch(const TrainProgress& progress, double train_loss,
             const std::vector<Metrics>& validation) override;
  Progress& progress() override { return progress_; }

 private:
  void clear_line();
  void print(const std::string& line);

  bool is_terminal_;
  bool shown_ = false;
  TerminalProgress progress_;
};

}  // namespace lacuna::cli
