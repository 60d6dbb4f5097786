#include "lacuna/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lacuna/report/html.h"

namespace lacuna::report {

std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string svg_open(double width, double height, const std::string& attributes) {
  return fmt::format(
      "<svg class=\"plot{}\" viewBox=\"0 0 {} {}\" style=\"max-width:{}px\" role=\"img\"{}>\n",
      width > 700 ? " wide" : "", px(width), px(height), px(width), attributes);
}

std::string text_at(double x, double y, const char* kind, const std::string& text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>", px(x), px(y), kind,
                     escape(text));
}

std::string line_between(double x0, double y0, double x1, double y1, const char* kind) {
  return fmt::format("<path class=\"{}\" d=\"M{} {}L{} {}\"/>", kind, px(x0), px(y0), px(x1),
                     px(y1));
}

std::string title_of(const std::string& text) {
  return fmt::format("<title>{}</title>", escape(text));
}

namespace {

std::vector<Tick> whole_ticks(const Axis& axis, int wanted) {
  std::vector<Tick> ticks;
  const double step = std::max(1.0, std::ceil(round_step(axis.high() - axis.low(), wanted)));
  const double first = std::ceil(axis.low() / step) * step;
  for (int i = 0; i <= 2 * wanted && first + i * step <= axis.high(); ++i)
    ticks.push_back({first + i * step, tick_label(first + i * step, step)});
  return ticks;
}

std::vector<Tick> y_ticks(const Axis& y, bool whole) {
  return whole ? whole_ticks(y, 6) : y.ticks(6);
}

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

std::string x_axis(const Frame& frame, const Axis& x, const std::string& label, int wanted,
                   bool whole) {
  std::string out = line_between(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
  for (const auto& tick : whole ? whole_ticks(x, wanted) : x.ticks(wanted)) {
    const double at = x.pixel(tick.value);
    out += line_between(at, frame.bottom, at, frame.bottom + 4, "axis");
    out += text_at(at, frame.bottom + 17, "tm", tick.label);
  }
  return out + text_at((frame.left + frame.right) / 2, frame.bottom + 36, "tm", label) + "\n";
}

std::string y_axis(const Frame& frame, const Axis& y, const std::string& label, bool whole) {
  std::string out;
  for (const auto& tick : y_ticks(y, whole)) {
    const double at = y.pixel(tick.value);
    out += line_between(frame.left, at, frame.right, at, "grid");
    out += text_at(frame.left - 7, at + 4, "te", tick.label);
  }
  return out + text_at(4, frame.top - 11, "ts", label) + "\n";
}

double y_axis_room(const Axis& y, bool whole) {
  double room = 54;  // the same for most plots, which stand below each other
  for (const auto& tick : y_ticks(y, whole)) room = std::max(room, text_width(tick.label) + 11);
  return room;
}

double text_width(const std::string& text, bool is_bold) {
  const auto starts_character = [](char c) { return (uint8_t(c) & 0xc0) != 0x80; };
  return (is_bold ? 7.8 : 7.2) * double(std::ranges::count_if(text, starts_character));
}

std::string axis_data(const char* name, const Axis& axis) {
  return fmt::format(" data-{}=\"{:.9g} {:.9g} {} {} {}\"", name, axis.low(), axis.high(),
                     px(axis.from()), px(axis.to()), axis.is_log() ? 1 : 0);
}

void Range::add(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

std::string shortened(const std::string& text, size_t characters) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (uint8_t(text[i]) & 0xc0) != 0x80;
    if (starts_character && ++seen > characters) return text.substr(0, i) + "…";
  }
  return text;
}

}  // namespace lacuna::report
