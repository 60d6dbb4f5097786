// Removed nodes and numbers for tests and benchmarks of the operators; not a part of the library.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "lacuna/graph/testing.h"
#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna::testing {

// Removed nodes that own their numbers.
struct RandomRemoved {
  std::vector<int32_t> index, ptr = {0};

  RemovedView view() const { return {index, ptr}; }
  void add(std::span<const int32_t> nodes) {
    index.insert(index.end(), nodes.begin(), nodes.end());
    ptr.push_back(int32_t(index.size()));
  }
};

// `most` + 1 different numbers of removed nodes, from 0 (the wild type) to `most`, by turns;
// repeats come by chance.
inline RandomRemoved random_removed(uint64_t seed, uint32_t nodes, int64_t batch, uint32_t most) {
  Random random(seed, 1);
  RandomRemoved removed;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<int32_t> sample((uint64_t(b) + 1) % (most + 1));
    for (int32_t& node : sample) node = int32_t(random.below(nodes));
    removed.add(sample);
  }
  return removed;
}

template <class Real>
Real from_double(double value) {
  if constexpr (std::is_same_v<Real, BFloat16>) {
    return BFloat16(float(value));
  } else {
    return Real(value);
  }
}
template <class Real>
double to_double(Real value) {
  if constexpr (std::is_same_v<Real, BFloat16>) {
    return double(float(value));
  } else {
    return double(value);
  }
}

// Normal numbers, rounded to Real.
template <class Real>
std::vector<Real> random_numbers(uint64_t seed, uint64_t stream, int64_t count) {
  Random random(seed, stream + 100);
  std::vector<Real> numbers(static_cast<size_t>(count));
  for (Real& number : numbers) number = from_double<Real>(random.normal());
  return numbers;
}
template <class Real>
std::vector<double> to_doubles(const std::vector<Real>& numbers) {
  std::vector<double> doubles;
  doubles.reserve(numbers.size());
  for (const Real number : numbers) doubles.push_back(to_double(number));
  return doubles;
}

struct Reduction {
  Reduce reduce = Reduce::sum;
  bool sum_types = false;
  int threads = 0;
};
// values, eps: empty where there are none.
template <class Real>
AggregateCall<Real> make_call(const Reduction& how, const Keep& keep, int64_t width,
                              const std::vector<Real>& x,
                              const std::vector<Parameter<Real>>& values = {},
                              const std::vector<Parameter<Real>>& eps = {}) {
  return {.reduce = how.reduce,
          .sum_types = how.sum_types,
          .keep = keep,
          .width = width,
          .x = x.data(),
          .values = values.empty() ? nullptr : values.data(),
          .eps = eps.empty() ? nullptr : eps.data(),
          .threads = how.threads};
}

}  // namespace lacuna::testing
