// How what a run stands on was made, in words: its model, its split, its screen.
#pragma once

#include <string>
#include <vector>

#include "lacuna/core/text/json.h"
#include "lacuna/run/run_contents.h"

namespace lacuna::report {

// "hetero_gin: width 64, layers 3, ..."; empty where config.yaml does not say.
std::string model_words(const RunContents& run);

// From Split::how: "drawn by gene with seed 1: 120 genes are removed by no training sample, ...".
// Empty where nothing is known.
std::string split_words(const Json& how);

// One line of what an import counted (screen/import/report.h), as the screen's manifest keeps it.
struct ImportCount {
  std::string source, what;
  uint64_t count = 0;
  std::string examples;  // joined; empty: none were kept
  bool is_left_out = false;
};
// Empty for a screen that was not imported.
std::vector<ImportCount> import_counts(const Json& made_by);

}  // namespace lacuna::report
