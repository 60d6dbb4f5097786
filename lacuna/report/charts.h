// Plots with two axes as inline SVG: lines, histograms, densities. Plain data in, a string out.
//
// Every mark that stands for a value carries a <title>, which a browser shows on hover; the script
// of the page (page.h) shows the same words at once, and the values of all lines under the pointer.
// Colours are classes (s0.. lines, f0.. fills, h1..h9 densities), which the page's style gives for
// light and for dark. Names are escaped here. Values that are not finite are left out.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lacuna::report {

struct Series {
  std::string name;
  std::vector<double> x, y;  // [points], x ascending; a y that is not finite breaks the line
  int colour = 0;
};
struct LineChart {
  std::string x_label, y_label;
  std::vector<Series> series;
  bool is_log_y = false;  // where all values are above zero
  bool whole_x = false;   // ticks at whole numbers only
  double width = 520;
};
std::string line_chart(const LineChart& chart);

// At most `limit` points with the same outline: of each stretch its first, lowest, highest and last
// point. Points that are not finite count as neither.
Series thinned(const Series& series, size_t limit = 1000);

struct Histogram {
  std::string x_label, y_label;
  std::vector<double> edges;     // [bins + 1], ascending
  std::vector<uint64_t> counts;  // [bins]
  std::string unit;              // "samples"
  bool is_log_x = false;
};
std::string histogram(const Histogram& data);

// Counts of points in bins over a range of each axis, colour by the logarithm of the count. The
// dashed line is where both values agree, the other one y = slope x + offset, where that is given.
struct HeatMap {
  std::string x_label, y_label;
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  double slope = std::numeric_limits<double>::quiet_NaN(), offset = 0;
  uint32_t bins = 1;
  std::vector<uint64_t> counts;  // [bins, bins], y first
  std::string unit;
};
std::string heat_map(const HeatMap& data);

}  // namespace lacuna::report
