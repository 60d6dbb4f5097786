// The screen that a run was trained on, where it is still to be found, and its counts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/report/charts.h"
#include "lacuna/run/run_contents.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/summary.h"

namespace lacuna::report {

struct ScreenFacts {
  Screen screen;
  ScreenSummary summary;
  Histogram degrees;                     // edges at a gene, of all types, both ends
  std::vector<Histogram> labels;         // [L]
  std::vector<std::string> label_notes;  // [L] what lies beyond the ends of the histogram, or ""
};

struct RunScreen {
  std::shared_ptr<const ScreenFacts> facts;  // null: see problem; shared by the runs of a screen
  std::string problem;                       // why there is none, or in what it has changed
  // Whether genes and sample numbers mean what they meant to the run: the genes have their
  // fingerprint, and every prediction finds its measurement at its sample.
  bool has_same_samples = false;
};

// The screens of these runs, each read once. A screen is looked for as run.json names it, from the
// working directory and from every folder above the run; one that is gone, or cannot be read, is
// told in `problem`.
std::vector<RunScreen> find_screens(const std::vector<RunContents>& runs, Progress& progress);

// The name of a gene; that of a yeast gene links to its page at the Saccharomyces Genome Database.
std::string gene_html(const Screen& screen, uint32_t gene);

}  // namespace lacuna::report
