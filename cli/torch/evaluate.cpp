// `lacuna evaluate`: a run's model and the simple baselines, on the parts of its split.
#include <fmt/format.h>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/train_lines.h"
#include "cli/torch_calls.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/run/evaluation/evaluation_words.h"
#include "lacuna/train/evaluate_run.h"

namespace lacuna::cli {

void run(const EvaluateCall& call) {
  const EvaluateRequest request = {
      .checkpoint = call.checkpoint, .device = call.device, .screen = call.screen, .out = call.out};
  stop_on_signals();
  TrainLines lines;
  const Run evaluated = Run::open(call.run);
  const std::string status = evaluated.info().value("status", "");
  try {
    const Evaluation evaluation = evaluate_run(
        evaluated, request, [&](const std::string& words) { lines.note(words); }, lines.progress());
    fmt::print(
        "checkpoint {}{}\n", evaluation.checkpoint,
        status == "finished" ? "" : fmt::format(" of a run that has not ended ({})", status));
    fmt::print("{}", format_table(evaluation_rows(evaluation)));
    for (const std::string& line : evaluation_lines(evaluation)) fmt::print("{}\n", line);
  } catch (const Stopped&) {
    lines.clear_line();
    fmt::print("stopped; nothing was written\n");
    set_exit_code(kResumeMe);
  }
}

}  // namespace lacuna::cli
