// What carries a run's predictions (run/explanation/), and pages about single genes.
#pragma once

#include <string>

#include "lacuna/report/run_screen.h"
#include "lacuna/run/run_contents.h"

namespace lacuna::report {

// Which network helps, as a bar chart, and the strongest unmeasured predictions, each list with a
// link that saves it. A sentence where `lacuna explain` was not called; empty for a run that was
// not evaluated either.
std::string explanation_section(const RunContents& run, const RunScreen& screen);

// "`lacuna explain RUN`" with the options behind it; of an ensemble for its members.
std::string explain_command(const RunContents& run, const std::string& options = {});

// The table of a list, lowest and highest, with its link.
std::string strongest_block(const RunContents& run, const RunScreen& screen,
                            const StrongestPredictions& found);

// Everything about one gene: its networks, what was measured of it and what was predicted. Throws
// Error where the screen is not at hand.
std::string gene_section(const RunContents& run, const RunScreen& screen, uint32_t gene);

// A link that saves `text` as a file of this name; nothing is fetched, the text is in the link.
std::string save_link(const std::string& file, const std::string& text, const std::string& words);

}  // namespace lacuna::report
