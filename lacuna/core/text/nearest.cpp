#include "lacuna/core/text/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lacuna {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

}  // namespace

size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // of the table: a's first i letters against b's first j
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  constexpr size_t kCompared = 100;  // first letters only: time grows with the square
  const auto distance = [&](const std::string& other) {
    return letters_apart(word.substr(0, kCompared), std::string_view(other).substr(0, kCompared));
  };
  const auto is_nearer = [&](const std::string& a, const std::string& b) {
    return distance(a) < distance(b);
  };
  const auto nearest = std::min_element(known.begin(), known.end(), is_nearer);
  return nearest == known.end() ? std::string() : *nearest;
}

}  // namespace lacuna
