// `lacuna evaluate`: a run's model and the simple baselines, on the parts of its split.
#include <memory>

#include "cli/commands.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"

namespace lacuna::cli {

void add_evaluate(CLI::App& app) {
  CLI::App* evaluate = app.add_subcommand(
      "evaluate", "Evaluate a run, or any predictions, beside the simple baselines");
  evaluate->footer(
      "Examples:\n"
      "  lacuna evaluate runs/tiny --checkpoint best_mse\n"
      "  lacuna evaluate --predictions mine.csv --screen demo --split gene --out runs/mine");
  const auto call = std::make_shared<EvaluateCall>();
  evaluate->add_option("RUN", call->run, "Directory of the run");
  add_model_options(*evaluate, *call);
  evaluate->add_option("--recording", call->recording, "Another place of the run's recording");
  evaluate->add_option("--out", call->out,
                       "Directory for evaluation.json and predictions/ [the run]");
  evaluate->add_option("--predictions", call->predictions,
                       "Evaluate these instead of a run's model: a table with the columns sample "
                       "and a label each (or prediction), or .npy [samples, labels], NaN = none");
  evaluate->add_option("--split", call->split, "With --predictions: the split");
  evaluate->add_option("--label", call->labels, "With --predictions: a label [all]")
      ->delimiter(',');
  evaluate->add_flag("--without-baselines", call->without_baselines,
                     "With --predictions: the model alone");
  evaluate->callback([call] {
    if (call->run.empty() == call->predictions.empty())
      throw UsageError("give a RUN, or --predictions FILE with --screen, --split and --out");
    if (!call->predictions.empty()) {
      if (call->screen.empty() || call->split.empty() || call->out.empty())
        throw UsageError("--predictions needs --screen, --split and --out");
      return run(*call);
    }
    if (!call->split.empty() || !call->labels.empty() || call->without_baselines)
      throw UsageError("--split, --label and --without-baselines go with --predictions");
    if (!call->screen.empty() && call->out.empty())
      throw UsageError("--screen needs --out: the run keeps the evaluation on its own screen");
    run(*call);
  });
}

}  // namespace lacuna::cli
