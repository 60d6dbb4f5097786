// `lacuna`: where a call needs torch, it becomes lacuna-torch.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/bench.h"
#include "cli/bench_recording.h"
#include "cli/terminal.h"
#include "cli/torch_calls.h"
#include "cli/torch_commands.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/file.h"

#if LACUNA_HAVE_TORCH
extern const char* const all_settings_text;  // made by cli/settings_text
#endif

namespace lacuna::cli {

void prepare_process() {}

#if LACUNA_HAVE_TORCH
bool is_built_with_torch() { return true; }

std::string all_settings() { return all_settings_text; }

// Threads of torch that wait for each other spin for milliseconds unless told otherwise. Beside the
// loader's threads, or on a machine that others use, that is time taken from those who compute: a
// training on two busy cores took 28 s instead of 5. libgomp spins so long where it knows of too
// few cores.
void wait_without_spinning() {
  if (!std::getenv("OMP_WAIT_POLICY")) ::setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
}

std::string minor(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

// Python, where it starts us (python/lacuna/__main__.py), says which torch its environment has;
// with another one than we were built for, lacuna-torch would end at some missing symbol.
void check_torch(const std::string& what) {
  const char* const there = std::getenv("LACUNA_TORCH_VERSION");
  const std::string needed = minor(LACUNA_BUILT_FOR_TORCH);
  if (!there || minor(there) == needed) return;
  const std::string found = *there ? "torch " + std::string(there) : "no torch";
  throw Error(
      "`{}` needs torch {}, which this lacuna was built for, and the environment has {}; `pip "
      "install 'torch=={}.*'` there, or install the lacuna that was built for its torch",
      what, needed, found, needed);
}

void need_torch(const std::string& what) {
  check_torch(what);
  wait_without_spinning();
  const fs::path program = fs::read_symlink("/proc/self/exe").replace_filename("lacuna-torch");
  ::execv(program.c_str(), command_words());
  throw Error("`{}` needs {}, which cannot be started: {}; install lacuna again, both programs",
              what, program.string(), std::strerror(errno));
}
#else
bool is_built_with_torch() { return false; }

std::string all_settings() { return ""; }

void need_torch(const std::string& what) {
  throw Error("`{}` needs torch, which this build has not; `make build` adds it", what);
}
#endif

Json training_pace(const PlanTrainingCall&) {
  need_torch("lacuna plan --config");
  return {};
}
void run(const CompareCall&) { need_torch("lacuna compare"); }
void run(const EvaluateCall&) { need_torch("lacuna evaluate"); }
void run(const ExplainCall&) { need_torch("lacuna explain"); }
void run(const ExportCall&) { need_torch("lacuna export"); }
void run(const PredictCall&) { need_torch("lacuna predict"); }
void run(const ProfileCall&) { need_torch("lacuna profile"); }
void run(const TrainCall&) { need_torch("lacuna train"); }
void run(const BenchCriteriaCall&) { need_torch("lacuna bench criteria"); }
void run(const BenchStepCall&) { need_torch("lacuna bench step"); }

TrainLadder ladder_training(const Screen&, const LadderSettings&, const LadderTraining&) {
  LACUNA_ASSERT(!"`bench ladder --train` has called need_torch()");
  return {};
}

RecordingLadderTraining recording_ladder_training(const Recording&, const RecordingLadderArguments&,
                                                  const fs::path&) {
  LACUNA_ASSERT(!"`bench ladder --train` has called need_torch()");
  return {};
}

}  // namespace lacuna::cli
