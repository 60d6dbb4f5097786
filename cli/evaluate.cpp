// `lacuna evaluate`: a run's model and the simple baselines, on the parts of its split.
#include <memory>

#include "cli/commands.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"

namespace lacuna::cli {

void add_evaluate(CLI::App& app) {
  CLI::App* evaluate = app.add_subcommand("evaluate", "Evaluate a run beside the simple baselines");
  evaluate->footer("Example:\n  lacuna evaluate runs/tiny --checkpoint best_mse");
  const auto call = std::make_shared<EvaluateCall>();
  evaluate->add_option("RUN", call->run, "Directory of the run")->required();
  add_model_options(*evaluate, *call);
  evaluate->add_option("--recording", call->recording, "Another place of the run's recording");
  evaluate->add_option("--out", call->out,
                       "Directory for evaluation.json and predictions/ [the run]");
  evaluate->callback([call] {
    if (!call->screen.empty() && call->out.empty())
      throw UsageError("--screen needs --out: the run keeps the evaluation on its own screen");
    run(*call);
  });
}

}  // namespace lacuna::cli
