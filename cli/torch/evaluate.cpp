// `lacuna evaluate`: a run's model and the simple baselines, on the parts of its split.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/train_lines.h"
#include "lacuna/core/error.h"
#include "lacuna/train/evaluate_run.h"

namespace lacuna::cli {
namespace {

struct Arguments {
  fs::path run;
  EvaluateRequest request;
};

void run(const Arguments& arguments) {
  EvaluateRequest request = arguments.request;
  if (!request.screen.empty() && request.out.empty())
    throw UsageError("--screen needs --out: the run keeps the evaluation on its own screen");
  request.stop = &stop_on_signals();
  TrainLines lines;
  const Run evaluated = Run::open(arguments.run);
  const std::string status = evaluated.info().value("status", "");
  const auto evaluation = evaluate_run(evaluated, request, lines);
  if (!evaluation) {
    fmt::print("stopped; nothing was written\n");
    set_exit_code(kResumeMe);
    return;
  }
  fmt::print("checkpoint {}{}\n", evaluation->checkpoint,
             status == "finished" ? "" : fmt::format(" of a run that has not ended ({})", status));
  fmt::print("{}", format_table(evaluation_rows(*evaluation)));
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* evaluate = app.add_subcommand("evaluate", "Evaluate a run beside the simple baselines");
  evaluate->footer("Example:\n  lacuna evaluate runs/tiny --checkpoint best_mse");
  const auto arguments = std::make_shared<Arguments>();
  EvaluateRequest& request = arguments->request;
  evaluate->add_option("RUN", arguments->run, "Directory of the run")->required();
  evaluate->add_option("--checkpoint", request.checkpoint,
                       "last, best_pearson or best_mse [best_pearson where there is one]");
  evaluate->add_option("--device", request.device, "auto, cpu or cuda [the run's]")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  evaluate->add_option("--screen", request.screen, "Another screen with the same genes and graph");
  evaluate->add_option("--out", request.out,
                       "Directory for evaluation.json and predictions/ [the run]");
  evaluate->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
