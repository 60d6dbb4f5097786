#include "cli/torch_commands.h"

#include "cli/bench.h"
#include "cli/commands.h"

namespace lacuna::cli {
namespace {

// In a build without torch: the name is there, and says what is missing.
void add_name(CLI::App& parent, const std::string& call, const char* name) {
  parent.add_subcommand(name, "(needs torch, which this build has not)")
      ->prefix_command()
      ->callback([what = call + " " + name] { need_torch(what); });
}

}  // namespace

void add_torch_commands(CLI::App& app) {
  if (!is_built_with_torch()) {
    for (const char* name :
         {"compare", "evaluate", "explain", "export", "predict", "profile", "train"})
      add_name(app, "lacuna", name);
    return;
  }
  add_compare(app);
  add_evaluate(app);
  add_explain(app);
  add_export(app);
  add_predict(app);
  add_profile(app);
  add_train(app);
}

void add_torch_benches(CLI::App& bench) {
  if (!is_built_with_torch()) {
    for (const char* name : {"criteria", "step"}) add_name(bench, "lacuna bench", name);
    return;
  }
  add_bench_criteria(bench);
  add_bench_step(bench);
}

}  // namespace lacuna::cli
