// An evaluation for people.
#pragma once

#include <string>
#include <vector>

#include "lacuna/run/evaluation/evaluation.h"

namespace lacuna {

// A table: a head, then a row a predictor. Columns: part, label (where there are several),
// predictor, measured, Pearson, Spearman and MSE, each with its interval where there is one; then
// the model minus the baseline, by the metric that judges (bootstrap.h), and what the model is:
// ahead, behind, not told apart. A dash for what is not defined.
std::vector<std::vector<std::string>> evaluation_rows(const Evaluation& evaluation);

// What stands below it: the noise ceiling, where it is known, a line a part and label; what was
// resampled, a line a part, and where the model stands, a line a part and label, both only where
// there are intervals; and one more where it is not ahead of `network`.
std::vector<std::string> evaluation_lines(const Evaluation& evaluation);

// "noise ceiling of 'fitness': Pearson 0.912; ..."; only where it is known.
std::string ceiling_text(const LabelEvaluation& label);

// "not ahead of network, a ridge that reads the gene networks: ..."; empty where the model is ahead
// of it, and where `network` was not evaluated or not compared with.
std::string network_text(const LabelEvaluation& label);

// The same told apart: a head, then a row a group of samples (apart/groups.h) and a tail
// (apart/tails.h), which has two: one a score. Columns: part, label (where there are several),
// which samples, how many, the score (Pearson, average precision, precision at k), the model's, the
// best baseline and its own, the model minus it, what the model is (of precision at k neither is
// computed). Empty where there are none.
std::vector<std::vector<std::string>> apart_rows(const Evaluation& evaluation);

// "Pearson +0.12 (0.08 to 0.15)"
std::string difference_text(const Difference& difference);

}  // namespace lacuna
