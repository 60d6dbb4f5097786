// The sections of a report, each a piece of HTML without its heading. What a run lacks is told in a
// sentence where a reader would look for it; a section that would say nothing more (predictions of
// a run that was not evaluated, a profile that was not measured) is empty.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lacuna/report/run_screen.h"
#include "lacuna/run/run_contents.h"

namespace lacuna::report {

// What must be known before anything else: the run was stopped, failed, still runs, or has files
// that a crash tore. Empty for most runs. with_name: the words start with the run's name.
std::string banners(const RunContents& run, bool with_name);

// One run: key figures and what they mean, and how model, split and screen were made. Several: a
// table, and the runs in one forest plot. screens: [runs].
std::string summary_section(std::span<const RunContents> runs, std::span<const RunScreen> screens);
std::string several_runs(std::span<const RunContents> runs);  // its part about several
// What was trained on what: the screens of these runs, each once. screens: [runs].
std::string data_section(const std::vector<RunContents>& runs,
                         const std::vector<RunScreen>& screens);
// Curves; several runs are laid over each other.
std::string training_section(std::span<const RunContents> runs);

std::string baselines_section(const RunContents& run);
// By groups of samples, and on the strong ones: at most -threshold or at least threshold; NaN: the
// lowest and the highest twentieth.
std::string groups_section(const RunContents& run, const RunScreen& screen, double threshold);
std::string predictions_section(const RunContents& run);
std::string errors_section(const RunContents& run, const RunScreen& screen);
std::string profile_section(const RunContents& run);
std::string ladder_section(const RunContents& run);
// The rungs and peers of a ladder as an SVG file of its own, with what was measured where under it.
// Throws Error where there are none.
std::string ladder_picture(const Ladder& ladder);
std::string config_section(const RunContents& run);

// ---- used by several sections

inline constexpr size_t kLabelsShown = 8;  // plots of more labels would make the file large

// Where evaluation.json is there and its predictions are not.
std::string not_predicted(const RunContents& run);
// Correlations with three decimals, a mean squared error with as many digits as it needs.
std::string metric_text(const MetricField& metric, double value);
// "0.412 [0.390, 0.433]", the interval set paler.
std::string score_html(const Scores& scores, const MetricField& metric);
// The model's Pearson, and below it what noise leaves to any model, where that is known.
std::string pearson_html(const LabelEvaluation& label);
// Of Pearson, Spearman and MSE, for a forest plot with these panels.
std::vector<Estimate> estimates_of(const Scores& scores);
const std::vector<std::string>& metric_panels();
// The noise ceiling of a label's Pearson, where the evaluation knows one; else NaN.
double ceiling_of(const PartEvaluation* part, const std::string& label);
// "Noise ceiling of Pearson: 0.912"; empty for NaN.
std::string ceiling_note(double ceiling);
// "95% bootstrap interval"
std::string interval_words(const Evaluation& evaluation);

}  // namespace lacuna::report
