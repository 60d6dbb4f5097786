#include "lacuna/ops/cast/pixels.h"

#include <bit>

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lacuna/ops/cast/pixels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lacuna {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

inline float NormalisePixel(uint8_t x) { return (float(x) - kPixelMiddle) / kPixelRange; }

template <class Real>
HWY_ATTR void Normalise(const uint8_t* HWY_RESTRICT x, uint64_t count, Real* HWY_RESTRICT out) {
  uint64_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int32_t, decltype(d)> integers;
  const auto middle = hn::Set(integers, int32_t(kPixelMiddle));
  const auto range = hn::Set(d, kPixelRange);
  const uint64_t lanes = hn::Lanes(d);
  for (; i + lanes <= count; i += lanes) {
    const auto number = hn::Sub(hn::PromoteTo(integers, hn::LoadU(bytes, x + i)), middle);
    const auto result = hn::Div(hn::ConvertTo(d, number), range);
    if constexpr (std::is_same_v<Real, float>) {
      hn::StoreU(result, d, out + i);
    } else {
      // To nearest even: no value is NaN, and none is near the largest.
      const hn::Rebind<uint32_t, decltype(d)> words;
      const hn::Rebind<uint16_t, decltype(d)> halves;
      const auto bits = hn::BitCast(words, result);
      const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
      const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu))));
      hn::StoreU(hn::DemoteTo(halves, hn::BitCast(integers, rounded)), halves,
                 reinterpret_cast<uint16_t*>(out + i));
    }
  }
#endif
  for (; i < count; ++i) out[i] = Real(NormalisePixel(x[i]));
}

}  // namespace

HWY_ATTR void NormaliseF32(const uint8_t* x, uint64_t count, float* out) {
  Normalise(x, count, out);
}
HWY_ATTR void NormaliseBF16(const uint8_t* x, uint64_t count, BFloat16* out) {
  Normalise(x, count, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace lacuna
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lacuna {

HWY_EXPORT(NormaliseF32);
HWY_EXPORT(NormaliseBF16);

template <>
void normalise_pixels(const uint8_t* x, uint64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(NormaliseF32)(x, count, out);
}
template <>
void normalise_pixels(const uint8_t* x, uint64_t count, BFloat16* out) {
  HWY_DYNAMIC_DISPATCH(NormaliseBF16)(x, count, out);
}

}  // namespace lacuna
#endif
