// What the model of a run says about samples that are listed, all pairs of genes, or all pairs or
// triples with given genes; streamed into a file (prediction_file.h) in the labels' own units. Of
// an ensemble (run/ensemble) it is the mean, and behind the labels a column "LABEL spread" each,
// the standard deviation over its members; those that are baselines are fitted once more.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lacuna/core/shard.h"
#include "lacuna/core/system/progress.h"
#include "lacuna/run/run.h"

namespace lacuna {

class Group;  // train/group.h: this header needs no torch

struct PredictRequest {
  // Which samples: one of these four (candidates.h).
  fs::path samples = {};  // a file
  bool all_pairs = false;
  std::vector<std::string> all_pairs_with = {};    // names of one gene or more
  std::vector<std::string> all_triples_with = {};  // names of one gene or two

  fs::path genes = {};      // a file: pairs and triples take their other genes from it; empty: all
  bool unmeasured = false;  // without those that the screen has with one of the run's labels

  uint64_t top = 0;     // only so many of the largest predictions; 0: all samples, in order
  bool lowest = false;  // the most negative instead
  std::string by = {};  // the label that they are ranked by; empty: the only one
  fs::path out = {};    // .csv or .npz
  Shard shard = {};     // of the samples

  std::string checkpoint = {};  // empty: best_pearson where there is one, else last
  std::string device = {};      // empty: the run's
  fs::path screen = {};         // empty: the run's
  uint64_t batch = 0;           // samples at a time; 0: twice that of training

  // Whether it says which samples.
  bool chooses_samples() const {
    return !samples.empty() || all_pairs || !all_pairs_with.empty() || !all_triples_with.empty() ||
           !genes.empty() || unmeasured;
  }
};

struct PredictResult {
  uint64_t asked = 0, written = 0;  // samples; asked: without the measured ones
  std::string checkpoint;
};

// `note` hears what the user should know. Throws UsageError for a request that could never work,
// Error for names that are not there and what the files do not allow. Of several ranks each
// predicts a shard into a .csv of its own beside `out`, OUT.rank2of4.csv, and rank 0 puts them
// together; `written` is 0 on the others.
PredictResult predict(const Run& run, const PredictRequest& request, Progress& progress,
                      const std::function<void(const std::string&)>& note, Group& group);

}  // namespace lacuna
