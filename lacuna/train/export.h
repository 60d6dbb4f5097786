// The vectors that the model of a run has learnt, as an .npz file:
//
//   genes       [N, H] f32   of each gene in the wild type
//   gene_names  [N] str
//   pooled      [S, H] f32   of each sample, pooled over its kept genes; where the model has them
//   samples     [S] u32      their numbers in the screen
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lacuna/core/system/progress.h"
#include "lacuna/run/run.h"

namespace lacuna {

struct ExportRequest {
  std::string part = "test";    // of the run's split: train, validation, test; or all
  fs::path out = {};            // .npz
  std::string checkpoint = {};  // empty: best_pearson where there is one, else last
  std::string device = {};      // empty: the run's
  fs::path screen = {};         // empty: the run's
};

struct ExportResult {
  uint64_t genes = 0, width = 0;
  uint64_t samples = 0;  // with pooled states; 0: the model has none
  std::string checkpoint;
};

// Throws Error when the part has no samples.
ExportResult export_embeddings(const Run& run, const ExportRequest& request, Progress& progress,
                               const std::function<void(const std::string&)>& note);

}  // namespace lacuna
