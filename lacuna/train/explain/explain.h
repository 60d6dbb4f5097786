// What carries the predictions of a run (run/explanation/): its networks taken away one by one, and
// its strongest predictions of samples that nobody has measured.
//
// Without a network is exact: the trained model is asked again over a graph in which that type has
// no edges. It is not trained anew, so this says what the model uses, not what another model could
// do without it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/run/explanation/explanation.h"
#include "lacuna/run/run.h"

namespace lacuna {

struct ExplainRequest {
  std::vector<std::string> genes = {};  // also the strongest predictions with each of them
  std::string label = {};               // of the strongest predictions; empty: the only one
  uint64_t top = 20;                    // so many of the lowest, and of the highest
  uint64_t candidates = 20000;          // at most so many unmeasured samples are predicted
  uint64_t samples = 5000;              // of the part that is scored, at most
  uint64_t seed = 1;                    // of both draws

  std::string checkpoint = {};  // empty: best_pearson where there is one, else last
  std::string device = {};      // empty: the run's
  fs::path screen = {};         // empty: the run's
};

// Scores the test part, or validation where there is none. Writes nothing (write_explanation()).
// Throws Error for a gene or a label that is not there, and where the split has neither part.
Explanation explain(const Run& run, const ExplainRequest& request, Progress& progress,
                    const std::function<void(const std::string&)>& note);

}  // namespace lacuna
