// What the runs of a grid (compare.h) came to, over seeds and folds.
//
// Whether the model is ahead of a baseline: all seeds of a row are judged on the same samples and
// met the same draws of what was held out (bootstrap.h), which their evaluations keep. In every
// draw the model minus the baseline is averaged over the seeds; the interval is the middle 95% of
// these averages. It says how sure the mean over these seeds is for other units like those that
// were held out; how much seeds differ is the sd beside it.
//
// Folds (screen/splits/split.h) are summed up once more, as "NAME (5 folds)": sd over all runs, the
// mean and its interval over the folds' means (spread.h). The interval of a difference is that of
// the mean over folds, each with the draws of its own genes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/run/compare/grid.h"
#include "lacuna/run/compare/spread.h"
#include "lacuna/run/evaluation/bootstrap.h"
#include "lacuna/run/evaluation/evaluation.h"

namespace lacuna {

// The model minus a baseline.
struct DifferenceSpread {
  Spread pearson, spearman, mse;  // over runs
  Difference mean = {};           // over runs, and over draws of what was held out
};

// Of some of the samples (evaluation/apart/): those with unseen genes, of a degree, the tails.
struct ApartSpread {
  std::string samples;  // "one gene unseen", "the lowest 5%"
  std::string score;    // "pearson", "average_precision", "precision_at_k"
  Spread spread = {};   // over the runs that have such samples
};

struct SummaryRow {
  std::string split;
  std::vector<std::string> values;  // [variations]
  std::string part, label, predictor;
  Spread pearson, spearman, mse;
  // The noise ceiling of Pearson (evaluation.h), over runs their mean; NaN: not known.
  double ceiling = kNotDefined;
  // Of baselines. Nothing where it was not computed, and then why: without draws
  // (evaluate.bootstrap is 0), an evaluation of an older version, runs that met different draws.
  std::optional<DifferenceSpread> difference = {};
  std::string problem = {};
  std::vector<ApartSpread> apart = {};
};

class Summary {
 public:
  // One more run; path: where it lies. split: that it was trained on.
  void add(const GridRun& run, const Split& split, const fs::path& path,
           const Evaluation& evaluation);

  // In the order of the runs, what sums up folds below all others.
  std::vector<SummaryRow> rows() const;
  // How many genes were held out: a line a name of folds.
  std::vector<std::string> fold_words() const;

 private:
  // What must be the same for two runs to have met the same draws.
  struct DrawsKey {
    uint64_t units = 0;
    int rounds = 0;
    std::vector<ListedFile> files;  // samples and measurements
    bool operator==(const DrawsKey&) const = default;
  };
  // What the runs of a split give a row: one split, or several where folds are summed up.
  struct SplitDraws {
    DrawsKey key;
    uint64_t units = 0;  // that were drawn
    uint64_t runs = 0;
    Draws sums = {};  // of the model minus the baseline, over runs, in every draw
  };
  struct ApartValues {
    ApartSpread about;
    size_t order = 0;
    std::vector<double> values = {};
    std::vector<std::string> splits = {};
  };
  // One row's scores, a run each.
  struct Cell {
    SummaryRow row;
    std::vector<std::string> splits = {};          // [runs]
    std::vector<Metrics> metrics = {};             // [runs]
    std::vector<double> ceilings = {};             // [runs]
    std::vector<Metrics> differences = {};         // [runs] of baselines: the model minus it
    std::map<std::string, SplitDraws> draws = {};  // of baselines, by split
    std::vector<ApartValues> apart = {};
  };
  // The folds that were summed up under one name.
  struct FoldSet {
    uint64_t folds = 0;                          // that there are
    std::map<std::string, uint64_t> genes = {};  // by split: held out for test
  };

  void add_under(const std::string& name, const GridRun& run, const fs::path& path,
                 const Evaluation& evaluation);
  static void add_draws(Cell& cell, const std::string& split, const fs::path& path,
                        const Evaluation& evaluation, const PartEvaluation& part,
                        const PartDraws& draws, size_t label);
  static void add_apart(Cell& cell, const std::string& split, const LabelEvaluation& label);
  static DifferenceSpread difference_over_runs(const Cell& cell);
  Cell& cell(const std::string& name, const std::vector<std::string>& values,
             const std::string& part, const std::string& label, const std::string& predictor);

  std::vector<Cell> cells_;
  std::map<std::string, FoldSet> folds_;  // by the name that its rows have
};

}  // namespace lacuna
