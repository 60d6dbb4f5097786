#include "lacuna/recording/generate_image.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"

namespace lacuna {
namespace {

constexpr double kGreyMean = 127, kGreySd = 45;

// Fourier transform of n values that lie `stride` apart, in place; n is a power of two.
void transform(std::complex<double>* x, uint64_t n, uint64_t stride) {
  for (uint64_t i = 1, j = 0; i < n; ++i) {
    uint64_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i * stride], x[j * stride]);
  }
  for (uint64_t length = 2; length <= n; length <<= 1) {
    const auto turn = std::polar(1.0, -2 * std::numbers::pi / double(length));
    for (uint64_t begin = 0; begin < n; begin += length) {
      std::complex<double> w = 1;
      for (uint64_t k = 0; k < length / 2; ++k, w *= turn) {
        auto& a = x[(begin + k) * stride];
        auto& b = x[(begin + k + length / 2) * stride];
        const auto sum = a + w * b;
        b = a - w * b;
        a = sum;
      }
    }
  }
}

}  // namespace

std::vector<uint8_t> one_over_f_image(uint32_t size, uint64_t seed, uint64_t stream) {
  LACUNA_ASSERT(size > 1 && (size & (size - 1)) == 0);
  Random random(seed, stream);
  // Random amplitudes at every frequency; the real part of their transform is a random picture.
  std::vector<std::complex<double>> spectrum(uint64_t(size) * size);
  for (uint32_t y = 0; y < size; ++y)
    for (uint32_t x = 0; x < size; ++x) {
      const double fy = std::min(y, size - y), fx = std::min(x, size - x);
      const double frequency = std::sqrt(fy * fy + fx * fx);
      const double real = random.normal(), imaginary = random.normal();
      if (frequency > 0)
        spectrum[uint64_t(y) * size + x] = {real / frequency, imaginary / frequency};
    }
  for (uint32_t y = 0; y < size; ++y) transform(spectrum.data() + uint64_t(y) * size, size, 1);
  for (uint32_t x = 0; x < size; ++x) transform(spectrum.data() + x, size, size);
  double square = 0;
  for (const auto& value : spectrum) square += value.real() * value.real();
  const double scale = kGreySd / std::sqrt(square / double(spectrum.size()));
  std::vector<uint8_t> image(spectrum.size());
  for (size_t i = 0; i < image.size(); ++i)
    image[i] = uint8_t(std::clamp(std::round(kGreyMean + scale * spectrum[i].real()), 0.0, 255.0));
  return image;
}

}  // namespace lacuna
