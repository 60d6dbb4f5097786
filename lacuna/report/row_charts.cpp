#include "lacuna/report/row_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/report/html.h"
#include "lacuna/report/svg.h"

namespace lacuna::report {
namespace {

constexpr double kWidth = 1040, kRight = 26, kGap = 46, kTop = 34, kRow = 24, kNote = 18;
constexpr size_t kNameCharacters = 44;  // of bars

// Where the plot begins: behind the longest name.
template <class Rows>
double room_for_names(const Rows& rows, size_t characters) {
  double room = 190;
  for (const auto& row : rows)
    room = std::max(room, text_width(shortened(row.name, characters), true) + 16);
  return room;
}

std::string row_name(double x, double y, const std::string& name, bool is_strong,
                     size_t characters) {
  std::string text = text_at(x - 12, y + 4, is_strong ? "te b" : "te", shortened(name, characters));
  return "<g>" + title_of(name) + text + "</g>";
}

Axis panel_axis(const ForestPlot& plot, size_t panel, double from, double to) {
  Range range;
  for (const auto& row : plot.rows)
    for (const double value :
         {row.estimates[panel].value, row.estimates[panel].low, row.estimates[panel].high})
      range.add(value);
  if (panel == 0) range.add(plot.ceiling);
  // Correlations are read against zero, when zero is not far.
  if (!plot.is_log && range.low > 0 && range.low < 0.6 * range.high) range.low = 0;
  return Axis::covering(range.low, range.high, from, to, plot.is_log);
}

std::string estimate_mark(const Estimate& estimate, const ForestRow& row, const std::string& panel,
                          const Axis& x, double y) {
  const bool has_interval = std::isfinite(estimate.low) && std::isfinite(estimate.high);
  std::string words = fmt::format("{}: {} {}", row.name, panel, number(estimate.value));
  if (has_interval)
    words += fmt::format(" (interval {} to {})", number(estimate.low), number(estimate.high));
  std::string out = "<g>" + title_of(words);
  const int colour = row.colour % kColours;
  if (has_interval)
    out += fmt::format("<path class=\"s{} wide\" d=\"M{} {}H{}\"/>", colour,
                       px(x.pixel(estimate.low)), px(y), px(x.pixel(estimate.high)));
  out += fmt::format("<circle class=\"{}{} {}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
                     row.is_strong ? "f" : "hollow s", colour, row.is_strong ? "" : "wide",
                     px(x.pixel(estimate.value)), px(y), row.is_strong ? 5 : 4);
  // Something to point at that is larger than the mark.
  out += fmt::format("<rect class=\"hit\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                     px(x.from()), px(y - kRow / 2), px(x.to() - x.from()), px(kRow));
  return out + "</g>\n";
}

std::string panel_of(const ForestPlot& plot, size_t panel, double from, double to, double bottom) {
  const Axis x = panel_axis(plot, panel, from, to);
  std::string out = text_at(from, 16, "ts b", plot.panels[panel]);
  const bool strong_once = std::count_if(plot.rows.begin(), plot.rows.end(),
                                         [](const auto& row) { return row.is_strong; }) == 1;
  for (const auto& tick : x.ticks(plot.panels.size() > 2 ? 4 : 6)) {
    const double at = x.pixel(tick.value);
    out += line_between(at, kTop - 6, at, bottom, tick.value == 0 ? "axis" : "grid");
    out += text_at(at, bottom + 16, "tm", tick.label);
  }
  if (panel == 0 && std::isfinite(plot.ceiling))
    out +=
        "<g>" + title_of(fmt::format("noise ceiling: {}", number(plot.ceiling))) +
        line_between(x.pixel(plot.ceiling), kTop - 12, x.pixel(plot.ceiling), bottom, "ceiling") +
        "</g>\n";
  for (size_t r = 0; r < plot.rows.size(); ++r) {
    const Estimate& estimate = plot.rows[r].estimates[panel];
    const double y = kTop + (double(r) + 0.5) * kRow;
    if (!std::isfinite(estimate.value)) {
      out += text_at(from + 6, y + 4, "ts halo", plot.missing);
      continue;
    }
    if (plot.rows[r].is_strong && strong_once)
      out +=
          line_between(x.pixel(estimate.value), kTop - 6, x.pixel(estimate.value), bottom, "guide");
    out += estimate_mark(estimate, plot.rows[r], plot.panels[panel], x, y);
  }
  return out;
}

}  // namespace

std::string forest_plot(const ForestPlot& plot) {
  LACUNA_ASSERT(!plot.panels.empty() && !plot.rows.empty());
  for (const auto& row : plot.rows) LACUNA_ASSERT(row.estimates.size() == plot.panels.size());
  const double bottom = kTop + kRow * double(plot.rows.size()) + 4;
  const double panels = double(plot.panels.size());
  const double names = room_for_names(plot.rows, plot.name_characters);
  const double width = (kWidth - names - kRight - kGap * (panels - 1)) / panels;
  std::string out = svg_open(kWidth, bottom + 26 + kNote * double(plot.notes.size()));
  for (size_t r = 0; r < plot.rows.size(); ++r)
    out += row_name(names, kTop + (double(r) + 0.5) * kRow, plot.rows[r].name,
                    plot.rows[r].is_strong, plot.name_characters);
  for (size_t p = 0; p < plot.panels.size(); ++p) {
    const double from = names + double(p) * (width + kGap);
    out += panel_of(plot, p, from, from + width, bottom);
  }
  for (size_t n = 0; n < plot.notes.size(); ++n)
    out += text_at(12, bottom + 36 + kNote * double(n), "ts", plot.notes[n]) + "\n";
  return out + "</svg>\n";
}

std::string bar_chart(const BarChart& chart) {
  LACUNA_ASSERT(!chart.rows.empty() && !chart.groups.empty());
  const double bar = chart.groups.size() > 1 ? 11 : 15;
  const double row_height = bar * double(chart.groups.size()) + 9;
  const double top = 8, bottom = top + row_height * double(chart.rows.size());
  Range range;
  range.add(0);
  for (const auto& row : chart.rows)
    for (const double value : row.values) range.add(value);
  const double names = room_for_names(chart.rows, kNameCharacters);
  const Axis x = Axis::covering(range.low, range.high, names, kWidth - kRight);
  std::string out = svg_open(kWidth, bottom + 44);
  const Frame frame = {kWidth, bottom + 44, names, kWidth - kRight, top, bottom};
  for (const auto& tick : x.ticks(8))
    out += line_between(x.pixel(tick.value), top, x.pixel(tick.value), bottom, "grid");
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    const BarRow& row = chart.rows[r];
    LACUNA_ASSERT(row.values.size() == chart.groups.size());
    const double y = top + row_height * double(r);
    out += row_name(names, y + row_height / 2, row.name, false, kNameCharacters);
    for (size_t g = 0; g < row.values.size(); ++g) {
      if (!std::isfinite(row.values[g]) || row.values[g] == 0) continue;
      const double zero = x.pixel(0), end = x.pixel(row.values[g]);
      const std::string group = chart.groups.size() > 1 ? ", " + chart.groups[g] : "";
      out += fmt::format(
          "<rect class=\"f{} bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n", g,
          px(std::min(zero, end)), px(y + 4.5 + bar * double(g)),
          px(std::max(0.5, std::abs(end - zero))), px(bar - 1),
          title_of(fmt::format("{}{}: {} {}{}", row.name, group, number(row.values[g]),
                               chart.x_label, row.note.empty() ? "" : ", " + row.note)));
    }
  }
  return out + x_axis(frame, x, chart.x_label, 8) + "</svg>\n";
}

}  // namespace lacuna::report
