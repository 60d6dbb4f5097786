// What every plot is drawn with: text, lines, words for hover, and a frame with two axes, whose
// ticks are round numbers. Pieces of SVG as strings; text is escaped here.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace lacuna::report {

std::string px(double value);  // to a tenth of a pixel: "12", "12.3"

// The opening tag; `attributes` start with a space or are empty. Scales down, never up.
std::string svg_open(double width, double height, const std::string& attributes = {});
// kind: a class of the page's style: "ts", "tm", "te" anchor at start, middle and end.
std::string text_at(double x, double y, const char* kind, const std::string& text);
// kind: "axis", "grid", "guide".
std::string line_between(double x0, double y0, double x1, double y1, const char* kind);
std::string title_of(const std::string& text);  // the words shown on hover

// ---- axes: from values to pixels

struct Tick {
  double value;
  std::string label;
};

// Linear or logarithmic. `low` and `high` are the values at the pixels `from` and `to`; from may be
// the larger, as on an axis that points upwards.
class Axis {
 public:
  // Covers low to high and a little more, so that both ends are ticks or lie within. A range
  // without width, or with ends that are not finite, becomes one that has width. Logarithmic: both
  // ends above zero, else it is linear.
  static Axis covering(double low, double high, double from, double to, bool is_log = false);
  // Exactly low to high, low < high; linear.
  static Axis exactly(double low, double high, double from, double to);

  double low() const { return low_; }
  double high() const { return high_; }
  double from() const { return from_; }
  double to() const { return to_; }
  bool is_log() const { return is_log_; }
  double pixel(double value) const;
  bool holds(double value) const { return value >= low_ && value <= high_; }

  // About `wanted` of them, at least two wherever there is room; labels have as many decimals as
  // tell them apart.
  std::vector<Tick> ticks(int wanted) const;

 private:
  Axis(double low, double high, double from, double to, bool is_log)
      : low_(low), high_(high), from_(from), to_(to), is_log_(is_log) {}

  double low_, high_, from_, to_;
  bool is_log_;
};

// 1, 2, 2.5 or 5 times a power of ten, so that `range` holds about `wanted` of them.
double round_step(double range, int wanted);
// The value as a tick of steps of `step` is written: "0.25", "1500", "1.5M", "1e-04".
std::string tick_label(double value, double step);

struct Frame {
  double width, height;             // of the drawing
  double left, right, top, bottom;  // of the plot within it
};
// Line, ticks and label below the plot; whole: ticks at whole numbers only.
std::string x_axis(const Frame& frame, const Axis& x, const std::string& label, int wanted = 6,
                   bool whole = false);
// Grid lines, their values on the left, the label above them.
std::string y_axis(const Frame& frame, const Axis& y, const std::string& label, bool whole = false);
// What y_axis() takes on the left of the plot: enough for its longest value.
double y_axis_room(const Axis& y, bool whole = false);
// About the width of a text of the page's style, in pixels; rather too wide than too narrow.
double text_width(const std::string& text, bool is_bold = false);
// For the page's script: " data-NAME="low high from to is_log"".
std::string axis_data(const char* name, const Axis& axis);

// From the lowest to the highest finite value.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value);
  bool is_empty() const { return low > high; }
};

// The first `characters` of a UTF-8 text, with an ellipsis where it was longer.
std::string shortened(const std::string& text, size_t characters);

}  // namespace lacuna::report
