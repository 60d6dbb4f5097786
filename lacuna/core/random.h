// Random numbers that are the same on every machine: a stream is a pure function of (seed, stream
// number).
//
// SplitMix64 over a hashed start; good enough for synthetic data, splits and tests, not for
// secrets. The standard library's distributions differ between implementations, so these are our
// own.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace lacuna {

// A bijection of 64-bit words that mixes every bit into every other.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0)
      : state_(mix64(seed + 0x9e3779b97f4a7c15u * (mix64(stream) | 1u))) {}

  uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15u); }
  // [0, n), by Lemire's multiplication; the bias is below n / 2^64. n > 0.
  uint64_t below(uint64_t n) { return uint64_t((unsigned __int128)(next()) * n >> 64); }
  // [0, 1), 53 bits.
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  // Mean 0, variance 1 (Box and Muller, one of the pair).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  uint64_t state_;
};

// All orders are equally likely (Fisher and Yates).
template <class T>
void shuffle(std::vector<T>& items, Random& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}
// 0 to count - 1 in such an order.
inline std::vector<uint32_t> shuffled(uint32_t count, Random& random) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  shuffle(numbers, random);
  return numbers;
}

}  // namespace lacuna
