// Six questions that a way of feeding a model has to answer, asked of every rung of the ladder on
// this machine:
//
//   1  are masks that a GPU makes the CPU's, bit for bit?
//   2  is training faster than the usual form (copies of the graph with edge masks), and on a GPU
//      at least 10 steps a second at batch 28?
//   3  are the predictions of every rung those of plain PyTorch within 1e-6? (the weights that the
//      run of question 5 ended with, in f64 on both sides, no training step between)
//   4  do the rungs kernel and device need less than 50 MB on the GPU beyond the model alone?
//      (alone: the same training over a graph without edges, whose plan is next to nothing; device:
//      beyond the masks of one batch, too; what the others need is told beside)
//   5  does a whole run end without error? (an epoch of all samples on a GPU, of the slice's on a
//      CPU, with validation and evaluation)
//   6  do two runs with one seed give the same numbers?
//
// Questions 1 to 4 and 6 are asked of a slice of a screen, for which stores and runs are made in a
// folder of the caller's. What is measured here is judged in criteria_judge.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/run/criteria_judge.h"
#include "lacuna/screen/screen.h"
#include "lacuna/train/session.h"

namespace lacuna {

// What plain PyTorch is to predict: samples of a screen, with the weights of a checkpoint.
struct PlainRequest {
  fs::path screen, checkpoint;
  std::vector<std::string> model;  // its settings, key=value
  std::vector<uint32_t> samples;
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
  // Standardised predictions [S, L] of a program that shares no line with this one; throws Error
  // where it cannot be had.
  std::function<std::vector<double>(const PlainRequest&, Progress&)> plain;
};

// The screen's first samples as a screen of its own, settings.folder/slice, with the same graph and
// a split "random". Throws Error when they are too few for a batch.
Screen write_criteria_slice(const Screen& screen, const CriteriaSettings& settings);

// The model that is asked about, unless `settings` change it: HeteroGin, width 64, three layers.
Config criteria_config(const fs::path& screen, const CriteriaSettings& settings);

// In order. screen: all samples; slice: what write_criteria_slice() made of it. Throws Error where
// nothing can be measured at all (no samples, no disk, no memory).
std::vector<Criterion> check_criteria(const Screen& screen, const Screen& slice,
                                      const CriteriaSettings& settings, const Note& note,
                                      Progress& progress = Progress::none());

}  // namespace lacuna
