#include "lacuna/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

}  // namespace

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
