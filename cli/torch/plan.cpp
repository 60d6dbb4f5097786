// `lacuna plan --config`: how long a training takes here.
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch_calls.h"
#include "lacuna/train/pace/pace.h"

namespace lacuna::cli {

Json training_pace(const PlanTrainingCall& call) {
  stop_on_signals();
  const Config config = read_config(call.config, call.settings);
  TerminalProgress progress;
  const Note note = print_note;
  const auto task = open_task({.config = config, .note = note, .progress = progress});
  settle_threads(*task, nullptr, true, note);
  const Pace pace = measure_pace(*task);
  return {{"what", task->words()},
          {"seconds", pace.seconds()},
          {"step_seconds", pace.step_seconds},
          {"steps_an_epoch", pace.steps_an_epoch},
          {"epochs", pace.epochs},
          {"threads", pace.threads},
          {"words", words(pace)},
          {"advice", advice(pace)}};
}

}  // namespace lacuna::cli
