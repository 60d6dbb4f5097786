// `lacuna train`: from a config to a run.
#include <fmt/format.h>

#include <string>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/ranks.h"
#include "cli/torch/train_lines.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/evaluation/evaluation_words.h"
#include "lacuna/train/trainer.h"

namespace lacuna::cli {
namespace {

// The config's name, and a number where that is taken: runs/tiny, runs/tiny-2.
fs::path free_place(const fs::path& config) {
  const fs::path base = fs::path("runs") / config.stem();
  fs::path place = base;
  for (int i = 2; fs::exists(place); ++i) place = fmt::format("{}-{}", base.string(), i);
  return place;
}

}  // namespace

void run(const TrainCall& call) {
  const bool goes_on = call.resume && fs::exists(call.out / "run.json");
  if (!goes_on && call.config.empty())
    throw Error("{} holds no run to resume; name a CONFIG to start one", call.out.string());
  const TrainRequest request = {.out = call.out.empty() ? free_place(call.config) : call.out,
                                .resume = call.resume,
                                .tensorboard = call.tensorboard,
                                .measure = true,
                                .command = command_line(),
                                .version = LACUNA_VERSION};
  if (!ranks().is_alone() && call.out.empty())
    throw UsageError("several ranks need --out, so that all mean the same run");
  stop_on_signals();
  const Config config = call.config.empty() ? read_config(request.out / "config.yaml", {})
                                            : read_config(call.config, call.settings);
  TrainLines lines;
  if (train(config, request, lines, ranks()) == RunEnd::stopped) {
    lines.clear_line();
    if (fs::exists(request.out / "run.json"))
      fmt::print("stopped; go on with: lacuna train --resume --out {}\n", request.out.string());
    else
      fmt::print("stopped before the run was begun; nothing was written\n");
    set_exit_code(kResumeMe);
    return;
  }
  if (!ranks().is_first()) return;  // rank 0 has evaluated
  if (config.kind() == DataKind::recording) {
    print_recording_evaluation(read_recording_evaluation(request.out));
  } else {
    const Evaluation evaluation = read_evaluation(request.out);
    fmt::print("\n{}", format_table(evaluation_rows(evaluation)));
    for (const std::string& line : evaluation_lines(evaluation)) fmt::print("{}\n", line);
  }
  fmt::print("\nrun: {}\n", request.out.string());
}

}  // namespace lacuna::cli
