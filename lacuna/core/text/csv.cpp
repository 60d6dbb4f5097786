#include "lacuna/core/text/csv.h"

#include <charconv>
#include <cmath>

namespace lacuna {
namespace {

// Whether the text starts with a sign of a formula, after any number of apostrophes.
bool begins_a_formula(std::string_view text) {
  const size_t first = text.find_first_not_of('\'');
  return first != text.npos && std::string_view("=+-@\t\r\n").find(text[first]) != text.npos;
}

bool is_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && std::isfinite(value);
}

}  // namespace

std::string csv_cell(std::string_view text) {
  std::string cell;
  if (begins_a_formula(text) && !is_number(text)) cell += '\'';
  if (text.find_first_of(",\"\r\n") == text.npos) return cell += text;
  for (const char c : text) {
    cell += c;
    if (c == '"') cell += c;
  }
  return "\"" + cell + "\"";
}

std::string_view without_apostrophe(std::string_view cell) {
  const bool has_one = cell.starts_with('\'') && begins_a_formula(cell);
  return has_one ? cell.substr(1) : cell;
}

}  // namespace lacuna
