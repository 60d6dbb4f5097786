#include "lacuna/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace lacuna::report {
namespace {

// Up to 3 decades every power of ten has companions at 2 and 5, as far as they fit.
std::vector<Tick> log_ticks(double low, double high, int wanted) {
  const int first = int(std::floor(std::log10(low) + 1e-9));
  const int last = int(std::ceil(std::log10(high) - 1e-9));
  const int decades = std::max(1, last - first);
  const int every = std::max(1, (decades + wanted - 1) / wanted);
  const std::vector<double> steps =
      decades * 3 <= wanted + 2 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  std::vector<Tick> ticks;
  for (int power = first; power <= last; power += every)
    for (const double step : steps) {
      const double value = step * std::pow(10.0, power);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9))
        ticks.push_back({value, tick_label(value, value)});
    }
  return ticks;
}

}  // namespace

double round_step(double range, int wanted) {
  const double rough = range / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (rough <= factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

std::string tick_label(double value, double step) {
  if (std::abs(value) < step * 1e-6) return "0";
  const double size = std::abs(value);
  // As many digits as tell this tick from its neighbours.
  const int digits =
      std::clamp(int(std::floor(std::log10(size)) - std::floor(std::log10(step))) + 2, 2, 15);
  for (const auto& [from, unit, name] :
       {std::tuple{1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}})
    if (size >= from) return fmt::format("{:.{}g}{}", value / unit, std::max(digits, 4), name);
  if (size < 1e-3) return fmt::format("{:.{}g}", value, digits);
  int decimals = std::max(0, int(-std::floor(std::log10(step) + 1e-9)));
  const double scaled = step * std::pow(10.0, decimals);
  if (std::abs(scaled - std::round(scaled)) > 1e-6) ++decimals;  // 0.25 needs more than 0.2
  return fmt::format("{:.{}f}", value, std::min(decimals, 15));
}

Axis Axis::covering(double low, double high, double from, double to, bool is_log) {
  if (!std::isfinite(low) || !std::isfinite(high)) low = 0, high = 1;
  if (low > high) std::swap(low, high);
  is_log = is_log && low > 0;
  if (is_log) {
    if (high < low * 1.5) low /= 1.5, high *= 1.5;
    return Axis(low * std::pow(high / low, -0.02), high * std::pow(high / low, 0.02), from, to,
                true);
  }
  if (high - low <= 1e-9 * std::max(std::abs(low), std::abs(high)) || high == low) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= room, high += room;
  }
  const double step = round_step(high - low, 5);
  const double floor = std::floor(low / step + 1e-9) * step;
  const double ceiling = std::ceil(high / step - 1e-9) * step;
  const double room = 0.03 * (high - low);
  // A round end where it is near; else just past the data, which then fill the plot.
  return Axis(low - floor < 0.35 * step ? floor : low - room,
              ceiling - high < 0.35 * step ? ceiling : high + room, from, to, false);
}

Axis Axis::exactly(double low, double high, double from, double to) {
  return Axis(low, high, from, to, false);
}

double Axis::pixel(double value) const {
  const double part =
      is_log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + part * (to_ - from_);
}

std::vector<Tick> Axis::ticks(int wanted) const {
  if (is_log_) {
    auto ticks = log_ticks(low_, high_, wanted);
    if (ticks.size() >= 2) return ticks;
  }
  std::vector<Tick> ticks;
  const double step = round_step(high_ - low_, wanted);
  const double first = std::ceil(low_ / step - 1e-9);
  for (int i = 0; i <= 2 * wanted && (first + i) * step <= high_ + step * 1e-9; ++i)
    ticks.push_back({(first + i) * step, tick_label((first + i) * step, step)});
  return ticks;
}

}  // namespace lacuna::report
