// `lacuna train`: from a config to a run.
#include <memory>

#include "cli/commands.h"
#include "cli/torch_calls.h"
#include "cli/torch_commands.h"
#include "lacuna/core/error.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(The run's directory holds the resolved config, metrics, checkpoints and the evaluation beside the
simple baselines (docs/runs.md). SIGTERM, SIGINT, SIGUSR1 and SIGHUP write a checkpoint and end
with exit code 75: the same command with --resume goes on from there, inside an epoch too. A run
keeps its config: where --resume finds one and a CONFIG is given that differs, that is an error.
Where it finds none, the run is started; so a job may always use the same command.

Which model? For pairs of genes, `factors` with train.hide: on the two real screens that were tried it
is ahead of every graph network here on genes that training never saw, and trains in under a minute on
one core. Start from configs/unseen-collins2007.yaml, average some seeds with the baseline `network`
(lacuna ensemble), which was best of all, and ask whether another model is ahead (docs/unseen-genes.md).

Examples:
  lacuna train configs/tiny.yaml --out run
  lacuna train configs/tiny.yaml --set train.lr=3e-4 --set model.merge=pairwise --out run2
  lacuna train --resume --out run

Settings, with their defaults:
)";

void check(const TrainCall& call) {
  if (call.resume && call.out.empty())
    throw UsageError("--resume needs --out: the run to go on with");
  if (!call.resume && call.config.empty())
    throw UsageError("no CONFIG; a new run needs one, for example configs/tiny.yaml");
  if (!call.settings.empty() && call.config.empty())
    throw UsageError("--set goes with a CONFIG; without one --resume takes the run's own");
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* train =
      app.add_subcommand("train", "Train a model on a screen or a recording, and evaluate it");
  train->footer(kMore + all_settings());
  const auto call = std::make_shared<TrainCall>();
  train->add_option("CONFIG", call->config, "YAML file; see configs/");
  train->add_option("--set", call->settings, "key=value over the config, such as train.lr=3e-4")
      ->allow_extra_args(false);
  train->add_option("--out", call->out, "Directory of the run [runs/NAME]");
  train->add_flag("--resume", call->resume,
                  "Go on with the run in --out where it stopped; start it where there is none");
  train->add_flag("--tensorboard", call->tensorboard, "Also write event files for TensorBoard");
  add_plugin_option(*train);
  train->callback([call] {
    check(*call);
    run(*call);
  });
}

}  // namespace lacuna::cli
