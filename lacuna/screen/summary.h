// What a screen holds, in numbers: degrees, labels, columns, splits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

// Of the values that are not missing (NaN); all zero where there are none.
struct NumberSummary {
  uint64_t count = 0, missing = 0;
  double mean = 0, sd = 0, min = 0, max = 0;  // sd: divided by count, not count - 1
};

// Over all nodes of one end of an edge type, those without edges included.
struct DegreeSummary {
  uint64_t min = 0, max = 0;
  double median = 0;
};

struct EdgeSummary {
  std::string key;
  uint64_t count = 0, self_loops = 0;  // self_loops: 0 between different node types
  DegreeSummary in, out;               // of the targets, of the sources
  std::vector<std::string> values;
};

struct ColumnSummary {
  std::string name;
  DType dtype = DType::f32;
  NumberSummary numbers;                                     // of a column of numbers
  uint64_t unknown = 0;                                      // of a column of categories
  std::vector<std::pair<std::string, uint64_t>> categories;  // with how many samples each
};

struct SplitSummary {
  std::string name;
  uint64_t train = 0, validation = 0, test = 0, unused = 0;
  Json how;
};

struct ScreenSummary {
  std::vector<EdgeSummary> edges;
  uint64_t isolated_genes = 0;  // genes without an edge of any type to another node
  uint64_t samples = 0;
  std::map<uint64_t, uint64_t> removed_counts;  // samples, by how many different genes they remove
  uint64_t genes_removed = 0;                   // genes that some sample removes
  std::vector<NumberSummary> labels;            // in the order of label_names
  std::vector<ColumnSummary> columns;
  std::vector<SplitSummary> splits;
};

// Reads every sample once. Throws Error where an index, a code or a part is out of its range.
ScreenSummary summarise(const Screen& screen, Progress& progress = Progress::none());
// What `lacuna info --json` prints and Python's Screen.summary() gives, its path and fingerprint
// included.
Json to_json(const ScreenSummary& summary, const Screen& screen);

}  // namespace lacuna
