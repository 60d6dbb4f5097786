// The sections of a report that are about runs on recordings: scores by session and segment, rates
// against counts, learned fields as pictures, the ladder. sections.h has those that all runs share.
#pragma once

#include <span>
#include <string>

#include "lacuna/run/run_contents.h"

namespace lacuna::report {

std::string recording_summary_section(std::span<const RunContents> runs);
std::string recording_data_section(std::span<const RunContents> runs);
std::string recording_scores_section(const RunContents& run);
std::string rates_section(const RunContents& run);
std::string fields_section(const RunContents& run);
std::string recording_ladder_section(const RunContents& run);

}  // namespace lacuna::report
