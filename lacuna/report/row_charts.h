// Plots with a named row for every value, as inline SVG: estimates with intervals, and bars. See
// charts.h for hover, colours and names.
#pragma once

#include <string>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"

namespace lacuna::report {

struct ForestRow {
  std::string name;
  std::vector<Estimate> estimates;  // [panels]; what is not finite is not drawn
  int colour = 0;
  bool is_strong = false;  // filled, and a line through the plot at its value
};
struct ForestPlot {
  std::vector<std::string> panels;
  std::vector<ForestRow> rows;
  bool is_log = false;                  // where all values are above zero
  std::string missing = "not defined";  // stands where a value is not finite
  std::vector<std::string> notes = {};  // lines under the plot
  // What noise leaves to any model, a line in the first panel; NaN: not known.
  double ceiling = kNotDefined;
  size_t name_characters = 44;  // longer names are cut, and whole on hover
};
std::string forest_plot(const ForestPlot& plot);

// Horizontal bars: rows of one bar a group.
struct BarRow {
  std::string name;
  std::vector<double> values;  // [groups]; zero or not finite: no bar
  std::string note;            // in the words shown on hover
};
struct BarChart {
  std::string x_label;
  std::vector<std::string> groups;
  std::vector<BarRow> rows;
};
std::string bar_chart(const BarChart& chart);

}  // namespace lacuna::report
