// The scale of one axis of a plot: from values to pixels, with round numbers for ticks.
#pragma once

#include <string>
#include <vector>

namespace lacuna::report {

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

}  // namespace lacuna::report
