// `lacuna compare`: a grid of runs over splits, seeds and varied settings, and its spread.
#include <memory>

#include "cli/commands.h"
#include "cli/torch_calls.h"
#include "lacuna/core/shard.h"

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
  lacuna compare configs/tiny.yaml --seeds 3 --folds gene --out compare-folds
  lacuna compare configs/tiny.yaml --vary model.name=hetero_gin,mlp --out compare-models)";

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* compare =
      app.add_subcommand("compare", "Run a grid over splits, seeds and settings, show its spread");
  compare->footer(kMore);
  const auto call = std::make_shared<CompareCall>();
  compare->add_option("CONFIG", call->config, "YAML file; see configs/")->required();
  compare->add_option("--out", call->out, "Directory of the runs and the summary")->required();
  compare->add_option("--seeds", call->seeds, "How many: train.seed 1, 2, ...")
      ->capture_default_str();
  compare->add_option("--splits", call->splits, "Splits of the screen [the config's]")
      ->delimiter(',')
      ->allow_extra_args(false);
  compare->add_option(
      "--folds", call->folds,
      "Name of folds (`lacuna split --folds`): all of them, summed up once more as one");
  compare
      ->add_option("--vary", call->variations,
                   "key=value,value: try each, such as train.lr=1e-3,3e-4; may be repeated")
      ->allow_extra_args(false);
  compare
      ->add_option("--set", call->settings,
                   "key=value over the config, for all runs; may be repeated")
      ->allow_extra_args(false);
  compare->add_option("--shard", call->shard,
                      "i/n: only the i-th part of the runs; the call without it sums up");
  add_plugin_option(*compare);
  compare->callback([call] {
    parse_shard(call->shard);
    run(*call);
  });
}

}  // namespace lacuna::cli
