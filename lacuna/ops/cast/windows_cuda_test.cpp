// Windows gathered on a GPU against normalise_pixels() frame by frame.
#include "lacuna/ops/cast/windows_cuda.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/ops/cast/pixels.h"
#include "lacuna/ops/cuda/cuda_test_support.h"

namespace lacuna {
namespace {

using namespace testing;

template <class Real>
void expect_frames(const WindowsShape& s, uint64_t seed) {
  Random random(seed, 5);
  std::vector<uint8_t> movie(size_t(s.rows * s.pixels));
  for (uint8_t& pixel : movie) pixel = uint8_t(random.below(256));
  std::vector<int64_t> newest(static_cast<size_t>(s.batch));
  const int64_t oldest = (s.lags - 1) * s.step;
  for (int64_t& row : newest) row = oldest + int64_t(random.below(uint64_t(s.rows - oldest)));
  newest[0] = s.rows - 1;  // the end of the movie
  movie.resize((movie.size() + 3) / 4 * 4);
  const DeviceArray<uint8_t> on_device(movie);
  const DeviceArray<int64_t> rows(newest);
  const DeviceArray<Real> out(size_t(s.batch * s.lags * s.pixels));
  gather_windows_cuda(s, on_device.data(), rows.data(), out.data(), nullptr);
  const std::vector<Real> got = out.host();
  std::vector<Real> frame(static_cast<size_t>(s.pixels));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t k = 0; k < s.lags; ++k) {
      const int64_t row = newest[size_t(b)] - k * s.step;
      normalise_pixels(movie.data() + row * s.pixels, uint64_t(s.pixels), frame.data());
      ASSERT_EQ(std::memcmp(frame.data(), got.data() + (b * s.lags + k) * s.pixels,
                            frame.size() * sizeof(Real)),
                0)
          << "window " << b << ", lag " << k;
    }
}

TEST(WindowsCuda, AreTheFramesNewestFirstToTheBit) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const WindowsShape& s : {WindowsShape{100, 2601, 7, 33, 1}, WindowsShape{40, 3, 5, 4, 2},
                                WindowsShape{9, 1, 3, 9, 1}, WindowsShape{50, 64, 4, 10, 3},
                                WindowsShape{1, 17, 2, 1, 1}}) {
    expect_frames<float>(s, seed);
    expect_frames<BFloat16>(s, seed);
  }
}

TEST(WindowsCuda, ARowOutsideTheMovieIsNotANumber) {
  LACUNA_NEEDS_GPU();
  const DeviceArray<uint8_t> movie(std::vector<uint8_t>(20 * 16, 5));
  const DeviceArray<int64_t> newest(std::vector<int64_t>{0, 20});
  const DeviceArray<float> out(2 * 2 * 16);
  gather_windows_cuda({20, 16, 2, 2, 1}, movie.data(), newest.data(), out.data(), nullptr);
  const std::vector<float> got = out.host();
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_FALSE(std::isnan(got[i]));
    EXPECT_TRUE(std::isnan(got[16 + i]));
    EXPECT_TRUE(std::isnan(got[32 + i]));
    EXPECT_FALSE(std::isnan(got[48 + i]));
  }
}

}  // namespace
}  // namespace lacuna
