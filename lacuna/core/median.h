// The median of measured times: a single disturbed measurement does not move it.
#pragma once

#include <algorithm>
#include <vector>

#include "lacuna/core/error.h"

namespace lacuna {

// Of at least one value; for an even number the mean of the middle two.
inline double median(std::vector<double> values) {
  LACUNA_ASSERT(!values.empty());
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace lacuna
