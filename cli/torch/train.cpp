// `lacuna train`: from a config to a run.
#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/train_lines.h"
#include "lacuna/core/error.h"
#include "lacuna/nn/model.h"
#include "lacuna/train/evaluation.h"
#include "lacuna/train/trainer.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(The run's directory holds the resolved config, metrics, checkpoints and the evaluation beside the
simple baselines (docs/runs.md). SIGTERM, SIGINT and SIGUSR1 write a checkpoint and end with exit
code 75: the same command with --resume goes on from there, inside an epoch too. A run keeps its
config: where --resume finds one and a CONFIG is given that differs, that is an error. Where it finds
none, the run is started; so a job may always use the same command.

Examples:
  lacuna train configs/tiny.yaml --out run
  lacuna train configs/tiny.yaml --set train.lr=3e-4 --set model.merge=pairwise --out run2
  lacuna train --resume --out run

Settings, with their defaults:
)";

struct Arguments {
  fs::path config;
  std::vector<std::string> settings;
  fs::path out;
  bool resume = false, tensorboard = false;
};

// The config's name, and a number where that is taken: runs/tiny, runs/tiny-2.
fs::path free_place(const fs::path& config) {
  const fs::path base = fs::path("runs") / config.stem();
  fs::path place = base;
  for (int i = 2; fs::exists(place); ++i) place = fmt::format("{}-{}", base.string(), i);
  return place;
}

// A text of YAML as lines of a help, further in.
std::string indented(const std::string& text) {
  std::istringstream in(text);
  std::string lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines += "  " + line + "\n";
  return lines;
}

std::string all_settings() {
  std::string text = indented(default_config());
  for (const std::string& name : model_names())
    text += fmt::format("\nUnder `model`, with name {}:\n{}", name, indented(model_defaults(name)));
  return text;
}

void run(const Arguments& arguments) {
  if (arguments.resume && arguments.out.empty())
    throw UsageError("--resume needs --out: the run to go on with");
  if (!arguments.resume && arguments.config.empty())
    throw UsageError("no CONFIG; a new run needs one, for example configs/tiny.yaml");
  if (!arguments.settings.empty() && arguments.config.empty())
    throw UsageError("--set goes with a CONFIG; without one --resume takes the run's own");
  const bool goes_on = arguments.resume && fs::exists(arguments.out / "run.json");
  if (!goes_on && arguments.config.empty())
    throw Error("{} holds no run to resume; name a CONFIG to start one", arguments.out.string());
  const TrainRequest request = {
      .out = arguments.out.empty() ? free_place(arguments.config) : arguments.out,
      .resume = arguments.resume,
      .tensorboard = arguments.tensorboard,
      .command = command_line(),
      .version = LACUNA_VERSION,
      .stop = &stop_on_signals()};
  const Config config = arguments.config.empty()
                            ? read_config(request.out / "config.yaml", {})
                            : read_config(arguments.config, arguments.settings);
  TrainLines lines;
  if (train(config, request, lines) == RunEnd::stopped) {
    lines.clear_line();
    fmt::print("stopped; go on with: lacuna train --resume --out {}\n", request.out.string());
    set_exit_code(kResumeMe);
    return;
  }
  const auto rows = evaluation_rows(read_evaluation(request.out));
  fmt::print("\n{}\nrun: {}\n", format_table(rows), request.out.string());
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* train = app.add_subcommand("train", "Train a model on a screen, and evaluate it");
  train->footer(kMore + all_settings());
  const auto arguments = std::make_shared<Arguments>();
  train->add_option("CONFIG", arguments->config, "YAML file; see configs/");
  train
      ->add_option("--set", arguments->settings, "key=value over the config, such as train.lr=3e-4")
      ->allow_extra_args(false);
  train->add_option("--out", arguments->out, "Directory of the run [runs/NAME]");
  train->add_flag("--resume", arguments->resume,
                  "Go on with the run in --out where it stopped; start it where there is none");
  train->add_flag("--tensorboard", arguments->tensorboard,
                  "Also write event files for TensorBoard");
  train->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
