#include "lacuna/screen/import/spreadsheet_date.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                      "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};

// 1 to 12 for a month's name, in any case; 0 for another word.
int month_of(std::string_view word) {
  std::string upper(word);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  for (size_t m = 0; m < kMonths.size(); ++m)
    if (upper == kMonths[m]) return int(m + 1);
  return 0;
}

// A whole number from low to high of at most four digits; 0 for anything else.
int small_number(std::string_view word, int low, int high) {
  int number = 0;
  const char* const end = word.data() + word.size();
  if (word.empty() || word.size() > 4) return 0;
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && stop == end && number >= low && number <= high ? number : 0;
}

}  // namespace

std::optional<std::string> name_before_date(std::string_view cell) {
  const size_t time = cell.find(' ');  // "2024-10-01 00:00:00"
  if (time != cell.npos && cell.find(':', time) != cell.npos) cell = cell.substr(0, time);
  std::vector<std::string_view> words;
  for (size_t start = 0; start <= cell.size();) {
    const size_t end = std::min(cell.find('-', start), cell.size());
    words.push_back(cell.substr(start, end - start));
    start = end + 1;
  }
  if (words.size() < 2 || words.size() > 3) return std::nullopt;
  int month = 0, day = 0;
  if (words.size() == 3 && small_number(words[0], 1900, 2999) > 0) {
    month = small_number(words[1], 1, 12);
    day = small_number(words[2], 1, 31);
  } else if (month_of(words[1]) > 0) {
    month = month_of(words[1]);
    day = small_number(words[0], 1, 31);
    if (words.size() == 3 && small_number(words[2], 1, 2999) == 0) return std::nullopt;
  } else if (words.size() == 2) {
    month = month_of(words[0]);
    day = small_number(words[1], 1, 31);
  }
  if (month == 0 || day == 0) return std::nullopt;
  return fmt::format("{}{}", kMonths[size_t(month - 1)], day);
}

}  // namespace lacuna
