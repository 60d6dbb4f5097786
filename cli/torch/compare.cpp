// `lacuna compare`: a grid of runs over splits, seeds and varied settings, and its spread.
#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/train_lines.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/run/compare/compare.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/train/trainer.h"

namespace lacuna::cli {
namespace {

// The line of progress, without a line an epoch.
class RunLines : public TrainLines {
 public:
  void begin(const std::string& /*what*/) override {}
  void epoch(const TrainProgress& /*progress*/, double /*train_loss*/,
             const ValidationScores& /*validation*/) override {}
  void say(const std::string& line) { TrainLines::begin(line); }
};

// "test Pearson 0.512 (noise ceiling 0.9)": of the last part, a label each.
std::string result_text(const Evaluation& evaluation) {
  if (evaluation.parts.empty()) return "not evaluated";
  const PartEvaluation& part = evaluation.parts.back();
  std::string text = part.part + " Pearson";
  for (const auto& label : part.labels) {
    const double pearson = label.scores[0].metrics.pearson;
    text += std::isnan(pearson) ? " -" : fmt::format(" {:.3f}", pearson);
    if (!std::isnan(label.ceiling)) text += fmt::format(" (noise ceiling {:.3f})", label.ceiling);
  }
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Comparison run_grid(const CompareCall& call) {
  if (read_config(call.config, call.settings).kind() == DataKind::recording)
    throw Error(
        "`lacuna compare` is for screens; train runs of a recording one by one, and lay them "
        "side by side with `lacuna report RUN RUN ..`");
  GridOptions options = {
      .config = call.config, .settings = call.settings, .splits = call.splits, .seeds = call.seeds};
  if (!call.folds.empty()) {
    const fs::path screen = read_config(call.config, call.settings).screen;
    for (const std::string& split : fold_splits(screen, call.folds))
      options.splits.push_back(split);
  }
  for (const auto& text : call.variations) options.variations.push_back(parse_variation(text));
  RunLines lines;
  const auto heard = [&](const GridRun& run, size_t number, size_t total, RunState state) {
    if (state == RunState::finished) return;
    lines.say(fmt::format("run {}/{}: {}{}", number + 1, total, run.name,
                          state == RunState::begun ? ", resumed" : ""));
  };
  const auto train_run = [&](const Config& config, const fs::path& run, bool resume) {
    const TrainRequest request = {.out = run,
                                  .resume = resume,
                                  .measure = true,
                                  .command = command_line(),
                                  .version = LACUNA_VERSION};
    try {
      if (train(config, request, lines) == RunEnd::stopped) return false;
    } catch (const std::exception& error) {
      if (is_stop_asked()) return false;
      lines.say(fmt::format("  failed: {}", first_line(error.what())));
      throw;
    }
    lines.say("  " + result_text(read_evaluation(run)));
    return true;
  };
  Grid grid = make_grid(options);
  for (const std::string& words : left_out_words(grid)) lines.note(words);
  return compare(std::move(grid), call.out, command_line(), train_run, heard,
                 parse_shard(call.shard));
}

void show(const Comparison& comparison, const CompareCall& call) {
  for (const std::string& words : comparison.notes) print_note(words);
  if (!comparison.rows.empty()) {
    const auto rows = comparison_rows(comparison);
    std::vector<size_t> right;  // the numbers: all behind the names but the last two
    for (size_t c = comparison.keys.size() + 3; c + 2 < rows[0].size(); ++c) right.push_back(c);
    fmt::print("\n{}\n", format_table(rows, right));
  }
  for (const std::string& words : comparison.held_out) fmt::print("{}\n", words);
  fmt::print("{} of {} runs are finished; summary: {}\n", comparison.finished, comparison.total,
             (call.out / "summary.csv").string());
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

void run(const CompareCall& call) {
  stop_on_signals();
  try {
    show(run_grid(call), call);
  } catch (const Stopped&) {  // between two runs
    fmt::print("stopped; the same command goes on\n");
    set_exit_code(kResumeMe);
  }
}

}  // namespace lacuna::cli
