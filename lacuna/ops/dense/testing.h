// What the tests of the fused kernels share; not a part of the library.
#pragma once

#include <cmath>
#include <vector>

namespace lacuna::testing {

inline double normal_below(double t) { return 0.5 * std::erfc(-t / std::sqrt(2.0)); }
inline double gelu_of(double t) { return t * normal_below(t); }
inline double gelu_slope_of(double t) {
  return normal_below(t) + t * std::exp(-0.5 * t * t) / std::sqrt(2 * M_PI);
}

// ||got - wanted|| / ||wanted||
template <class Real>
double distance(const std::vector<Real>& got, const std::vector<double>& wanted) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double d = double(float(got[i])) - wanted[i];
    difference += d * d;
    size += wanted[i] * wanted[i];
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

}  // namespace lacuna::testing
