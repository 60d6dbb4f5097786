// `lacuna explain`: what carries the predictions of a run.
#include <memory>

#include "cli/commands.h"
#include "cli/torch_calls.h"

namespace lacuna::cli {
namespace {

constexpr const char* kExplainMore =
    R"(Asks the trained model again without the edges of each network, on the test part: what it loses is
what it uses that network for. Then predicts samples that the screen does not have, and of the
strongest says which networks and which measured neighbours they hang on. The result is kept in
RUN/explanation.json; `lacuna report RUN` shows it.

Examples:
  lacuna explain runs/demo
  lacuna explain runs/demo --gene VPS8 --gene VPS21 --candidates 100000)";

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "Which networks help, and the strongest unmeasured predictions");
  command->footer(kExplainMore);
  const auto call = std::make_shared<ExplainCall>();
  ExplainRequest& request = call->request;
  command->add_option("RUN", call->run, "Directory of the run")->required();
  command->add_option("--gene", request.genes, "Also the strongest predictions with this gene")
      ->allow_extra_args(false)
      ->delimiter(',');
  command->add_option("--label", request.label, "The label of the strongest predictions");
  command->add_option("--top", request.top, "So many of the lowest, and of the highest")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--candidates", request.candidates,
                   "At most so many unmeasured samples are predicted, drawn at random where there "
                   "are more")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--samples", request.samples, "At most so many of the part are scored")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", request.seed, "Of what is drawn at random")->capture_default_str();
  add_model_options(*command, request);
  command->callback([call] { run(*call); });
}

}  // namespace lacuna::cli
