// `lacuna`: the names of what needs torch. Meeting one, it becomes lacuna-torch.
#include "cli/torch_commands.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/bench.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/core/file.h"

namespace lacuna::cli {
namespace {

// Its name, and its line in the help of `parent`, which is what lacuna-torch says there
// (tests/test_two_programs.py). The name alone decides: no word after it is looked at here.
void add_name(CLI::App& parent, const std::string& call, const char* name, const char* about) {
  const std::string what = call + " " + name;
#if LACUNA_HAVE_TORCH
  parent.add_subcommand(name, about)->preparse_callback([what](size_t) { need_torch(what); });
#else
  (void)about;
  parent.add_subcommand(name, "(needs torch, which this build has not)")
      ->prefix_command()
      ->callback([what] { need_torch(what); });
#endif
}

}  // namespace

void add_torch_commands(CLI::App& app) {
  const auto add = [&](const char* name, const char* about) {
    add_name(app, "lacuna", name, about);
  };
  add("compare", "Run a grid over splits, seeds and settings, show its spread");
  add("evaluate", "Evaluate a run beside the simple baselines");
  add("export", "Write what the model of a run has learnt");
  add("predict", "Predict samples by the model of a run");
  add("profile", "Where the time of a training step goes");
  add("train", "Train a model on a screen, and evaluate it");
}

void add_torch_benches(CLI::App& bench) {
  add_name(bench, "lacuna bench", "criteria", "Six questions about every rung");
  add_name(bench, "lacuna bench", "step", "Training steps on one batch");
}

void need_torch(const std::string& what) {
#if LACUNA_HAVE_TORCH
  const fs::path program = fs::read_symlink("/proc/self/exe").replace_filename("lacuna-torch");
  ::execv(program.c_str(), command_words());
  throw Error("`{}` needs {}, which cannot be started: {}; install lacuna again, both programs",
              what, program.string(), std::strerror(errno));
#else
  throw Error("`{}` needs torch, which this build has not; `make build` adds it", what);
#endif
}

TrainLadder ladder_training(const Screen&, const LadderSettings&, const LadderTraining&) {
  LACUNA_ASSERT(!"`bench ladder --train` has called need_torch()");
  return {};
}

}  // namespace lacuna::cli
