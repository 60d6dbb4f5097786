#include "lacuna/run/compare/spread.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// The 97.5% quantile of Student's t for so many degrees of freedom; between two entries that of the
// smaller one, which is the wider.
double t_quantile(size_t freedom) {
  static constexpr std::array<std::pair<size_t, double>, 14> kTable = {{{1, 12.706},
                                                                        {2, 4.303},
                                                                        {3, 3.182},
                                                                        {4, 2.776},
                                                                        {5, 2.571},
                                                                        {6, 2.447},
                                                                        {7, 2.365},
                                                                        {8, 2.306},
                                                                        {9, 2.262},
                                                                        {10, 2.228},
                                                                        {15, 2.131},
                                                                        {20, 2.086},
                                                                        {30, 2.042},
                                                                        {60, 2.0}}};
  double quantile = kTable[0].second;
  for (const auto& [entry, value] : kTable)
    if (entry <= freedom) quantile = value;
  return quantile;
}

// Equal values give exactly themselves.
double mean_of(const std::vector<double>& values) {
  const double least = *std::min_element(values.begin(), values.end());
  double mean = 0;
  for (const double value : values) mean += (value - least) / double(values.size());
  return mean + least;
}

double sd_of(const std::vector<double>& values) {
  if (values.size() < 2) return kNotDefined;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / double(values.size() - 1));
}

Interval interval_of_mean(const std::vector<double>& values) {
  const double sd = sd_of(values);
  if (values.size() < 3 || !(sd > 0)) return {kNotDefined, kNotDefined};
  const double mean = mean_of(values);
  const double half = t_quantile(values.size() - 1) * sd / std::sqrt(double(values.size()));
  return {mean - half, mean + half};
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  return spread_of(values, std::vector<std::string>(values.size()));
}

Spread spread_of(const std::vector<double>& values, const std::vector<std::string>& splits) {
  LACUNA_ASSERT(values.size() == splits.size());
  std::vector<double> defined;
  std::map<std::string, std::vector<double>> of_split;
  for (size_t v = 0; v < values.size(); ++v) {
    if (std::isnan(values[v])) continue;
    defined.push_back(values[v]);
    of_split[splits[v]].push_back(values[v]);
  }
  if (defined.empty()) return {0, kNotDefined, kNotDefined, kNotDefined, kNotDefined};
  std::vector<double> units = defined;
  if (of_split.size() > 1) {
    units.clear();
    for (const auto& [split, of] : of_split) units.push_back(mean_of(of));
  }
  const auto [min, max] = std::minmax_element(defined.begin(), defined.end());
  return {defined.size(), mean_of(units), sd_of(defined), *min, *max, interval_of_mean(units)};
}

}  // namespace lacuna
