// lacuna ensemble RUN...: several evaluated runs, and baselines, as one predictor.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/run/ensemble/ensemble.h"
#include "lacuna/run/evaluation/evaluation_words.h"

namespace lacuna::cli {
namespace {

void run_ensemble(const EnsembleRequest& request) {
  stop_on_signals();
  TerminalProgress progress;
  const Ensemble ensemble = make_ensemble(request, progress);
  std::vector<std::vector<std::string>> rows = {{"member", "what", "weight"}};
  for (const EnsembleMember& member : ensemble.members) {
    std::string weights;
    for (const double weight : member.weights)
      weights += fmt::format("{}{:.3f}", weights.empty() ? "" : " ", weight);
    rows.push_back({member.name, member.words(), weights});
  }
  fmt::print("{}\n{}", format_table(rows), format_table(evaluation_rows(ensemble.evaluation)));
  for (const std::string& line : evaluation_lines(ensemble.evaluation)) fmt::print("{}\n", line);
  if (const auto apart = apart_rows(ensemble.evaluation); !apart.empty())
    fmt::print("\n{}", format_table(apart));
}

}  // namespace

void add_ensemble(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ensemble", "Average evaluated runs and baselines, and evaluate the mean like a run");
  const auto request = std::make_shared<EnsembleRequest>();
  const auto weights = std::make_shared<std::string>("equal");
  command->add_option("RUN", request->runs, "Evaluated runs of one split")->required();
  command->add_option("--out", request->out, "A new directory, which `lacuna report` reads")
      ->required();
  command
      ->add_option(
          "--baseline", request->baselines,
          "A baseline of the first run as one more member, such as network; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--weights", *weights,
                   "equal: all members count alike\n"
                   "validation: from 0 on, with sum 1, the lowest MSE on validation")
      ->check(CLI::IsMember({"equal", "validation"}))
      ->capture_default_str();
  command->footer(
      "Nothing is predicted anew: members are what the runs' evaluations hold. The spread over\n"
      "members lies beside the predictions, and intervals made of it are judged.\n"
      "Example:\n"
      "  lacuna ensemble runs/a runs/b runs/c --baseline network --weights validation --out "
      "runs/all");
  command->callback([request, weights] {
    request->weighted = *weights == "validation";
    request->command = command_line();
    run_ensemble(*request);
  });
}

}  // namespace lacuna::cli
