// The sections of a report, each a piece of HTML without its heading. What a run lacks is told in a
// sentence where a reader would look for it; a section that would say nothing more (predictions of
// a run that was not evaluated, a profile that was not measured) is empty.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lacuna/report/run_files.h"
#include "lacuna/report/run_screen.h"

namespace lacuna::report {

// What must be known before anything else: the run was stopped, failed, still runs, or has files
// that a crash tore. Empty for most runs. with_name: the words start with the run's name.
std::string banners(const Run& run, bool with_name);

// One run: key figures and what they mean. Several: a table, and the runs in one forest plot.
std::string summary_section(std::span<const Run> runs);
// What was trained on what: the screens of these runs, each once. screens: [runs].
std::string data_section(const std::vector<Run>& runs, const std::vector<RunScreen>& screens);
// Curves; several runs are laid over each other.
std::string training_section(std::span<const Run> runs);

std::string baselines_section(const Run& run);
std::string predictions_section(const Run& run);
std::string errors_section(const Run& run, const RunScreen& screen);
std::string profile_section(const Run& run);
std::string ladder_section(const Run& run);
// The rungs and peers of a ladder as an SVG file of its own, with what was measured where under it.
// Throws Error where there are none.
std::string ladder_picture(const Ladder& ladder);
std::string config_section(const Run& run);

// ---- used by several sections

// The baseline with the highest Pearson correlation, or null where none has one.
const NamedMetrics* best_baseline(const LabelEvaluation& label);
// "0.412 [0.390, 0.433]", the interval set paler; correlations with three decimals.
std::string estimate_html(const Estimate& estimate, bool is_correlation);

}  // namespace lacuna::report
