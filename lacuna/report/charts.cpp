#include "lacuna/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/svg.h"

namespace lacuna::report {
namespace {

constexpr Frame kFrame = {520, 290, 54, 496, 26, 246};  // room for half a value at the end of x

// ---- lines

std::string line_path(const Series& series, const Axis& x, const Axis& y) {
  std::string path;
  bool is_drawing = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) {
      is_drawing = false;
      continue;
    }
    path += fmt::format("{}{} {}", is_drawing ? 'L' : 'M', px(x.pixel(series.x[i])),
                        px(y.pixel(series.y[i])));
    is_drawing = true;
  }
  return path;
}

std::string line_title(const Series& series) {
  Range range;
  double last = std::numeric_limits<double>::quiet_NaN();
  for (const double value : series.y) {
    range.add(value);
    if (std::isfinite(value)) last = value;
  }
  return fmt::format("{}: last {}, lowest {}, highest {}", series.name, number(last),
                     number(range.low), number(range.high));
}

std::string line_mark(const Series& series, const Axis& x, const Axis& y) {
  constexpr size_t kMarked = 40;  // points are seen one by one up to here
  std::string xs, ys, marks;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
    xs += fmt::format("{}{:.9g}", xs.empty() ? "" : " ", series.x[i]);
    ys += fmt::format("{}{:.5g}", ys.empty() ? "" : " ", series.y[i]);
    if (series.x.size() <= kMarked)
      marks +=
          fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"2.4\" class=\"f{}\"/>",
                      px(x.pixel(series.x[i])), px(y.pixel(series.y[i])), series.colour % kColours);
  }
  return fmt::format(
      "<g class=\"line\" data-n=\"{}\" data-x=\"{}\" data-y=\"{}\">{}<path class=\"s{} d{}\" "
      "d=\"{}\"/>{}</g>\n",
      escape(series.name), xs, ys, title_of(line_title(series)), series.colour % kColours,
      series.colour / kColours % 3, line_path(series, x, y), marks);
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  Range xs, ys;
  for (const auto& series : chart.series) {
    LACUNA_ASSERT(series.x.size() == series.y.size());
    for (size_t i = 0; i < series.x.size(); ++i)
      if (std::isfinite(series.y[i])) xs.add(series.x[i]), ys.add(series.y[i]);
  }
  Frame frame = kFrame;
  frame.right += chart.width - frame.width;
  frame.width = chart.width;
  if (ys.is_empty()) return "<p class=\"note\">nothing to draw: no value is defined</p>";
  const Axis y = Axis::covering(ys.low, ys.high, frame.bottom, frame.top, chart.is_log_y);
  frame.left = y_axis_room(y);
  const Axis x = xs.low == xs.high
                     ? Axis::covering(xs.low - 1, xs.high + 1, frame.left, frame.right)
                     : Axis::exactly(xs.low, xs.high, frame.left, frame.right);
  std::string out = svg_open(frame.width, frame.height,
                             axis_data("x", x) + axis_data("y", y) +
                                 fmt::format(" data-label=\"{}\"", escape(chart.x_label)));
  out += y_axis(frame, y, chart.y_label) + x_axis(frame, x, chart.x_label, 6, chart.whole_x);
  for (const auto& series : chart.series) out += line_mark(series, x, y);
  return out + "</svg>\n";
}

Series thinned(const Series& series, size_t limit) {
  const size_t count = series.x.size();
  if (count <= limit) return series;
  const size_t stretches = std::max<size_t>(1, limit / 4);
  Series out = {.name = series.name, .x = {}, .y = {}, .colour = series.colour};
  for (size_t k = 0; k < stretches; ++k) {
    const size_t begin = k * count / stretches, end = (k + 1) * count / stretches;
    size_t lowest = begin, highest = begin;
    for (size_t i = begin; i < end; ++i) {
      const double value = series.y[i];
      if (!std::isfinite(value)) continue;
      if (!std::isfinite(series.y[lowest]) || value < series.y[lowest]) lowest = i;
      if (!std::isfinite(series.y[highest]) || value > series.y[highest]) highest = i;
    }
    std::vector<size_t> kept = {begin, lowest, highest, end - 1};
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const size_t i : kept) out.x.push_back(series.x[i]), out.y.push_back(series.y[i]);
  }
  return out;
}

std::string histogram(const Histogram& data) {
  LACUNA_ASSERT(data.edges.size() == data.counts.size() + 1 && !data.counts.empty());
  Frame frame = kFrame;
  const uint64_t most = *std::max_element(data.counts.begin(), data.counts.end());
  const Axis y = Axis::covering(0, double(std::max<uint64_t>(1, most)), frame.bottom, frame.top);
  frame.left = y_axis_room(y, true);
  const Axis x =
      data.is_log_x
          ? Axis::covering(data.edges.front(), data.edges.back(), frame.left, frame.right, true)
          : Axis::exactly(data.edges.front(), data.edges.back(), frame.left, frame.right);
  std::string out = svg_open(frame.width, frame.height);
  out += y_axis(frame, y, data.y_label, true);
  for (size_t i = 0; i < data.counts.size(); ++i) {
    if (data.counts[i] == 0) continue;
    const double from = x.pixel(data.edges[i]), to = x.pixel(data.edges[i + 1]);
    const double top = std::min(y.pixel(double(data.counts[i])), frame.bottom - 0.5);
    out += fmt::format(
        "<rect class=\"f0 bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n", px(from),
        px(top), px(std::max(0.5, to - from - 0.6)), px(frame.bottom - top),
        title_of(fmt::format("{} to {}: {} {}", number(data.edges[i]), number(data.edges[i + 1]),
                             with_commas(data.counts[i]), data.unit)));
  }
  return out + x_axis(frame, x, data.x_label) + "</svg>\n";
}

// ---- density

namespace {

constexpr int kLevels = 9;

int level_of(uint64_t count, uint64_t most) {
  if (most <= 1) return kLevels;
  return 1 +
         int(std::floor((kLevels - 1) * std::log(double(count)) / std::log(double(most)) + 1e-9));
}

std::string colour_bar(double left, double top, double bottom, uint64_t most,
                       const std::string& unit) {
  std::string out = "<g>" + title_of(fmt::format("{} in a bin, logarithmic", unit));
  const double step = (bottom - top) / kLevels;
  for (int level = 1; level <= kLevels; ++level)
    out += fmt::format("<rect class=\"h{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"{}\"/>", level,
                       px(left), px(bottom - level * step), px(step + 0.3));
  out += "</g>" + text_at(left + 17, bottom, "ts", "1");
  if (most > 1) out += text_at(left + 17, top + 9, "ts", with_commas(most));
  if (most >= 100)
    out += text_at(left + 17, (top + bottom) / 2 + 4, "ts",
                   with_commas(uint64_t(std::llround(std::sqrt(double(most))))));
  return out + text_at(left - 2, bottom + 17, "ts", unit) + "\n";
}

// The part of y = slope x + offset that lies within both axes.
std::string line_within(const Axis& x, const Axis& y, double slope, double offset,
                        const char* kind) {
  double from = x.low(), to = x.high();
  if (slope != 0) {
    const double a = (y.low() - offset) / slope, b = (y.high() - offset) / slope;
    from = std::max(from, std::min(a, b));
    to = std::min(to, std::max(a, b));
  } else if (!y.holds(offset)) {
    return "";
  }
  if (!(from < to)) return "";
  return line_between(x.pixel(from), y.pixel(slope * from + offset), x.pixel(to),
                      y.pixel(slope * to + offset), kind);
}

}  // namespace

std::string heat_map(const HeatMap& data) {
  const uint64_t bins = data.bins;
  LACUNA_ASSERT(data.counts.size() == bins * bins && data.x_low < data.x_high &&
                data.y_low < data.y_high);
  const Frame frame = {480, 412, 58, 398, 26, 366};
  const Axis x = Axis::exactly(data.x_low, data.x_high, frame.left, frame.right);
  const Axis y = Axis::exactly(data.y_low, data.y_high, frame.bottom, frame.top);
  const double x_step = (data.x_high - data.x_low) / double(bins);
  const double y_step = (data.y_high - data.y_low) / double(bins);
  const double side = (frame.right - frame.left) / double(bins);
  const uint64_t most = *std::max_element(data.counts.begin(), data.counts.end());
  std::string out = svg_open(frame.width, frame.height) + y_axis(frame, y, data.y_label);
  for (uint64_t j = 0; j < bins; ++j)
    for (uint64_t i = 0; i < bins; ++i) {
      const uint64_t count = data.counts[j * bins + i];
      if (count == 0) continue;
      const double x0 = data.x_low + double(i) * x_step, y0 = data.y_low + double(j) * y_step;
      out += fmt::format(
          "<rect class=\"h{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n",
          level_of(count, most), px(x.pixel(x0)), px(y.pixel(y0 + y_step)), px(side + 0.2),
          px(side + 0.2),
          title_of(fmt::format("{} {:.3g} to {:.3g}, {} {:.3g} to {:.3g}: {} {}", data.x_label, x0,
                               x0 + x_step, data.y_label, y0, y0 + y_step, with_commas(count),
                               data.unit)));
    }
  out += line_within(x, y, 1, 0, "guide");
  if (std::isfinite(data.slope)) out += line_within(x, y, data.slope, data.offset, "fit");
  out += x_axis(frame, x, data.x_label, 6);
  out += colour_bar(frame.right + 16, frame.top, frame.bottom, most, data.unit);
  return out + "</svg>\n";
}

}  // namespace lacuna::report
