#include "lacuna/ops/cast/cast.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lacuna/ops/cast/cast.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lacuna {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// A byte has 256 values: where there is no fused multiply-add, a table of them is exact, and fast
// enough.
template <class Real>
HWY_INLINE void CastByTable(const uint8_t* HWY_RESTRICT x, int64_t count, float scale, float shift,
                            Real* HWY_RESTRICT out) {
  std::array<Real, 256> table;
  for (size_t i = 0; i < 256; ++i) table[i] = Real(std::fma(float(i), scale, shift));
  for (int64_t i = 0; i < count; ++i) out[i] = table[x[i]];
}

template <class Real>
HWY_ATTR void Cast_(const uint8_t* HWY_RESTRICT x, int64_t count, float scale, float shift,
                    Real* HWY_RESTRICT out) {
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int32_t, decltype(d)> integers;
  const auto factor = hn::Set(d, scale), offset = hn::Set(d, shift);
  const auto lanes = int64_t(hn::Lanes(d));
  HWY_ALIGN float rounded[hn::MaxLanes(d)];
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto number = hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, x + i)));
    const auto result = hn::MulAdd(number, factor, offset);
    if constexpr (std::is_same_v<Real, float>) {
      hn::StoreU(result, d, out + i);
    } else {
      hn::Store(result, d, rounded);
      for (int64_t j = 0; j < lanes; ++j) out[i + j] = Real(rounded[j]);
    }
  }
  for (; i < count; ++i) out[i] = Real(std::fma(float(x[i]), scale, shift));
#else
  CastByTable(x, count, scale, shift, out);
#endif
}

}  // namespace

HWY_ATTR void CastF32(const uint8_t* x, int64_t count, float scale, float shift, float* out) {
  Cast_(x, count, scale, shift, out);
}
HWY_ATTR void CastBF16(const uint8_t* x, int64_t count, float scale, float shift, BFloat16* out) {
  Cast_(x, count, scale, shift, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace lacuna
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lacuna {

HWY_EXPORT(CastF32);
HWY_EXPORT(CastBF16);

template <class Real>
void cast(const uint8_t* x, int64_t count, float scale, float shift, Real* out, int threads) {
  if (count < 0) throw Error("count is {}", count);
  if (x == nullptr && count > 0) throw Error("x is missing; it needs {} elements", count);
  if (out == nullptr && count > 0) throw Error("out is missing; it needs {} elements", count);
  constexpr int64_t kBlock = int64_t(1) << 16;
  parallel_for(uint64_t((count + kBlock - 1) / kBlock), threads, [&](uint64_t i) {
    const int64_t first = int64_t(i) * kBlock, size = std::min(kBlock, count - first);
    if constexpr (std::is_same_v<Real, float>)
      HWY_DYNAMIC_DISPATCH(CastF32)(x + first, size, scale, shift, out + first);
    else
      HWY_DYNAMIC_DISPATCH(CastBF16)(x + first, size, scale, shift, out + first);
  });
}
template void cast(const uint8_t*, int64_t, float, float, float*, int);
template void cast(const uint8_t*, int64_t, float, float, BFloat16*, int);

}  // namespace lacuna
#endif
