// How near a result must be to the reference; test support, not a part of the library.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "lacuna/ops/testing.h"

namespace lacuna::testing {

// Bounds on |result - reference| an element:
//   f64    1e-12 of the norm of the whole
//   f32    2 terms 2^-24 magnitude, where magnitude is the sum of the absolute values of that
//          element's terms
//   bf16   2^-8 |reference| more, for the rounding of the result
struct Terms {
  std::vector<double> magnitude;  // an element
  double count;                   // at most this many terms an element
};

template <class Real>
void expect_close(const std::vector<Real>& result, const std::vector<double>& reference,
                  const Terms& terms) {
  ASSERT_EQ(result.size(), reference.size());
  ASSERT_EQ(result.size(), terms.magnitude.size());
  double norm = 0;
  for (const double r : reference) norm += r * r;
  norm = std::sqrt(norm);
  for (size_t i = 0; i < result.size(); ++i) {
    const double error = std::abs(to_double(result[i]) - reference[i]);
    double bound = 1e-12 * norm;
    if (!std::is_same_v<Real, double>) bound = 2 * terms.count * 0x1p-24 * terms.magnitude[i];
    if (std::is_same_v<Real, BFloat16>) bound += 0x1p-8 * std::abs(reference[i]);
    ASSERT_LE(error, bound) << "element " << i << " of " << result.size() << ": "
                            << to_double(result[i]) << ", reference " << reference[i];
  }
}

// What a reference is made of: the numbers themselves, or their absolute values for Terms.
inline double same(double number) { return number; }
inline double magnitude(double number) { return std::abs(number); }

// A result to be overwritten: whatever stays of it fails every comparison.
template <class Real>
std::vector<Real> poisoned(size_t count) {
  return std::vector<Real>(count, from_double<Real>(std::nan("")));
}

// The same bits; a NaN equals itself.
template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0);
}

}  // namespace lacuna::testing
