// `lacuna compare`: a grid of runs over splits, seeds and varied settings, and its spread.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/train_lines.h"
#include "lacuna/core/error.h"
#include "lacuna/train/compare.h"
#include "lacuna/train/evaluation.h"
#include "lacuna/train/trainer.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(Every combination of splits, varied values and seeds is a run of its own in --out. The same command
goes on where it was stopped; more seeds, splits or values extend it. summary.csv and summary.json in
--out hold the table for all parts (docs/evaluation.md). Where --vary names models (model.name), the
keys under `model` that one of them has not are left out of its runs, and a note says which.

Examples:
  lacuna compare configs/tiny.yaml --seeds 5 --splits random,gene,pair --out compare
  lacuna compare configs/tiny.yaml --seeds 3 --vary graph=kept,shuffled --vary train.lr=1e-3,3e-4 \
    --out compare-graphs
  lacuna compare configs/tiny.yaml --vary model.name=hetero_gin,mlp --out compare-models)";

struct Arguments {
  GridOptions grid;
  std::vector<std::string> variations;
  fs::path out;
};

// The line of progress, without a line an epoch.
class RunLines : public TrainLines {
 public:
  void begin(const std::string& /*what*/) override {}
  void epoch(const TrainProgress& /*progress*/, double /*train_loss*/,
             const std::vector<Metrics>& /*validation*/) override {}
  void say(const std::string& line) { TrainLines::begin(line); }
};

// "test Pearson 0.512": of the last part, a label each.
std::string result_text(const Evaluation& evaluation) {
  if (evaluation.parts.empty()) return "not evaluated";
  const PartEvaluation& part = evaluation.parts.back();
  std::string text = part.part + " Pearson";
  for (const auto& label : part.labels) {
    const double pearson = label.scores[0].metrics.pearson;
    text += std::isnan(pearson) ? " -" : fmt::format(" {:.3f}", pearson);
  }
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Comparison run_grid(const Arguments& arguments, const std::atomic<bool>& stop) {
  GridOptions options = arguments.grid;
  for (const auto& text : arguments.variations) options.variations.push_back(parse_variation(text));
  RunLines lines;
  const auto heard = [&](const GridRun& run, size_t number, size_t total, RunState state) {
    if (state == RunState::finished) return;
    lines.say(fmt::format("run {}/{}: {}{}", number + 1, total, run.name,
                          state == RunState::begun ? ", resumed" : ""));
  };
  const auto train_run = [&](const Config& config, const fs::path& run, bool resume) {
    const TrainRequest request = {.out = run,
                                  .resume = resume,
                                  .command = command_line(),
                                  .version = LACUNA_VERSION,
                                  .stop = &stop};
    try {
      if (train(config, request, lines) == RunEnd::stopped) return false;
    } catch (const std::exception& error) {
      if (stop) return false;
      lines.say(fmt::format("  failed: {}", first_line(error.what())));
      throw;
    }
    lines.say("  " + result_text(read_evaluation(run)));
    return true;
  };
  Grid grid = make_grid(options);
  for (const std::string& words : left_out_words(grid)) lines.note(words);
  return compare(std::move(grid), arguments.out, command_line(), train_run, heard);
}

void run(const Arguments& arguments) {
  const Comparison comparison = run_grid(arguments, stop_on_signals());
  if (!comparison.rows.empty()) {
    std::vector<size_t> right;
    for (size_t c = comparison.keys.size() + 3; c < comparison.keys.size() + 20; ++c)
      right.push_back(c);
    fmt::print("\n{}\n", format_table(comparison_rows(comparison), right));
  }
  fmt::print("{} of {} runs are finished; summary: {}\n", comparison.finished, comparison.total,
             (arguments.out / "summary.csv").string());
  if (comparison.stopped) {
    fmt::print("stopped; the same command goes on\n");
    set_exit_code(kResumeMe);
  } else if (!comparison.failures.empty()) {
    throw Error("{} of {} runs failed, the first is {}: {}", comparison.failures.size(),
                comparison.total, comparison.failures[0].run,
                first_line(comparison.failures[0].message));
  }
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* compare =
      app.add_subcommand("compare", "Run a grid over splits, seeds and settings, show its spread");
  compare->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  arguments->grid.seeds = 5;
  compare->add_option("CONFIG", arguments->grid.config, "YAML file; see configs/")->required();
  compare->add_option("--out", arguments->out, "Directory of the runs and the summary")->required();
  compare->add_option("--seeds", arguments->grid.seeds, "How many: train.seed 1, 2, ...")
      ->capture_default_str();
  compare->add_option("--splits", arguments->grid.splits, "Splits of the screen [the config's]")
      ->delimiter(',')
      ->allow_extra_args(false);
  compare
      ->add_option("--vary", arguments->variations,
                   "key=value,value: try each, such as train.lr=1e-3,3e-4; may be repeated")
      ->allow_extra_args(false);
  compare
      ->add_option("--set", arguments->grid.settings,
                   "key=value over the config, for all runs; may be repeated")
      ->allow_extra_args(false);
  compare->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
