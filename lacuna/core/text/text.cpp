#include "lacuna/core/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

namespace lacuna {

std::string with_commas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string format_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

std::string format_duration(double seconds) {
  const uint64_t whole = uint64_t(std::llround(seconds));
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

std::string format_rate(double per_second) {
  if (per_second < 100) return fmt::format("{:.1f}", per_second);
  const double scale = std::pow(10.0, std::floor(std::log10(per_second)) - 2);  // three digits
  return with_commas(uint64_t(std::llround(std::round(per_second / scale) * scale)));
}

std::string format_digits(double value) {
  if (value <= 0) return "0";
  return fmt::format("{:.{}f}", value, std::clamp(2 - int(std::floor(std::log10(value))), 0, 6));
}

std::string shell_word(std::string_view word) {
  const auto is_plain = [](char c) {  // also letters beyond ASCII
    return std::isalnum(uint8_t(c)) || uint8_t(c) >= 0x80 ||
           std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace lacuna
