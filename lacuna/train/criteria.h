// Six questions that a way of feeding a model has to answer, asked of every rung of the ladder on
// this machine:
//
//   1  are masks that a GPU makes the CPU's, bit for bit?
//   2  is training faster than the usual form (copies of the graph with edge masks), and on a GPU
//      at least 10 steps a second at batch 28?
//   3  do all rungs train to predictions within 1e-6 of each other? (in f32)
//   4  do the rungs kernel and device need less than 50 MB on the GPU beyond the model? (device:
//      beyond the model and the masks of one batch; what the others need is told beside)
//   5  does a whole run end without error?
//   6  do two runs with one seed give the same numbers?
//
// They are asked of a slice of a screen, for which stores and runs are made in a folder of the
// caller's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/progress.h"
#include "lacuna/screen/screen.h"
#include "lacuna/train/session.h"

namespace lacuna {

enum class Verdict { pass, fail, left_out };
std::string_view name(Verdict verdict);  // "pass", "FAIL", "left out"

struct Criterion {
  int number = 0;
  std::string question;
  Verdict verdict = Verdict::left_out;
  std::string figure;  // what was measured, or why it was left out
};

struct CriteriaSettings {
  fs::path folder;         // empty or not there; the caller removes it
  uint64_t samples = 128;  // of the slice
  uint64_t batch = 28;
  uint64_t steps = 3;                 // measured on each rung
  std::vector<std::string> settings;  // key=value over the model and the training
  // Milliseconds of a step of the usual form with this screen, batch and model; or why there is
  // none.
  std::optional<double> usual_ms;
  std::string without_usual;
};

// The screen's first samples as a screen of its own, settings.folder/slice, with the same graph and
// a split "random". Throws Error when they are too few for a batch.
Screen write_criteria_slice(const Screen& screen, const CriteriaSettings& settings);

// The model that is asked about, unless `settings` change it: HeteroGin, width 64, three layers.
Config criteria_config(const fs::path& screen, const CriteriaSettings& settings);

// In order. Throws Error where nothing can be measured at all (no samples, no disk, no memory).
std::vector<Criterion> check_criteria(const Screen& slice, const CriteriaSettings& settings,
                                      const Note& note, Progress& progress = Progress::none());

}  // namespace lacuna
