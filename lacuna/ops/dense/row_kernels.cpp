#include "lacuna/ops/dense/row_kernels.h"

#include <cmath>

// The targets of ops/aggregate/column_kernels.cpp.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lacuna/ops/dense/row_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After it: it is made for one target at a time.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace lacuna {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most one cache line.
template <class T>
using RowTag = hn::CappedTag<T, 64 / sizeof(T)>;

constexpr double kRowNormEps = 1e-5;
constexpr int kTileRows = 6;  // with two vectors a row the sums fit the registers of AVX2

// kRows rows and two vectors of columns at a time: they stay in registers over all of `inner`.
template <int kRows, class Acc>
HWY_INLINE void ProductTile(const RowProduct<Acc>& args, int64_t row, int64_t column) {
  const RowTag<Acc> d;
  const auto lanes = int64_t(hn::Lanes(d));
  hn::Vec<decltype(d)> low[kRows], high[kRows];
  for (int i = 0; i < kRows; ++i) {
    low[i] = args.bias ? hn::Load(d, args.bias + column) : hn::Zero(d);
    high[i] = args.bias ? hn::Load(d, args.bias + column + lanes) : hn::Zero(d);
  }
  const Acc* HWY_RESTRICT in = args.in + row * args.in_pitch;
  const Acc* HWY_RESTRICT weight = args.weight + column;
  for (int64_t k = 0; k < args.inner; ++k, weight += args.pitch) {
    const auto first = hn::Load(d, weight), second = hn::Load(d, weight + lanes);
    for (int i = 0; i < kRows; ++i) {
      const auto x = hn::Set(d, in[i * args.in_pitch + k]);
      low[i] = hn::MulAdd(x, first, low[i]);
      high[i] = hn::MulAdd(x, second, high[i]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    Acc* out = args.out + (row + i) * args.pitch + column;
    hn::Store(low[i], d, out);
    hn::Store(high[i], d, out + lanes);
  }
}

template <class Acc>
HWY_ATTR void Product_(const RowProduct<Acc>& args) {
  const auto panel = 2 * int64_t(hn::Lanes(RowTag<Acc>()));
  for (int64_t column = 0; column < args.pitch; column += panel) {
    int64_t row = 0;
    for (; row + kTileRows <= args.rows; row += kTileRows)
      ProductTile<kTileRows>(args, row, column);
    for (; row < args.rows; ++row) ProductTile<1>(args, row, column);
  }
}

template <int kRows, class Acc>
HWY_INLINE void OuterTile(const RowOuter<Acc>& args, int64_t k, int64_t column) {
  const RowTag<Acc> d;
  const auto lanes = int64_t(hn::Lanes(d));
  hn::Vec<decltype(d)> low[kRows], high[kRows];
  for (int i = 0; i < kRows; ++i) {
    low[i] = hn::Load(d, args.sum + (k + i) * args.pitch + column);
    high[i] = hn::Load(d, args.sum + (k + i) * args.pitch + column + lanes);
  }
  const Acc* HWY_RESTRICT in = args.in + k;
  const Acc* HWY_RESTRICT grad = args.grad + column;
  for (int64_t r = 0; r < args.rows; ++r, in += args.in_pitch, grad += args.pitch) {
    const auto first = hn::Load(d, grad), second = hn::Load(d, grad + lanes);
    for (int i = 0; i < kRows; ++i) {
      const auto x = hn::Set(d, in[i]);
      low[i] = hn::MulAdd(x, first, low[i]);
      high[i] = hn::MulAdd(x, second, high[i]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    hn::Store(low[i], d, args.sum + (k + i) * args.pitch + column);
    hn::Store(high[i], d, args.sum + (k + i) * args.pitch + column + lanes);
  }
}

template <class Acc>
HWY_ATTR void Outer_(const RowOuter<Acc>& args) {
  const auto panel = 2 * int64_t(hn::Lanes(RowTag<Acc>()));
  for (int64_t column = 0; column < args.pitch; column += panel) {
    int64_t k = 0;
    for (; k + kTileRows <= args.inner; k += kTileRows) OuterTile<kTileRows>(args, k, column);
    for (; k < args.inner; ++k) OuterTile<1>(args, k, column);
  }
}

// Phi(-|x|) = e^(-x^2/2) t (a1 + t (a2 + ..)) / 2 with t = 1 / (1 + p |x| / sqrt 2), Abramowitz and
// Stegun 7.1.26: within 7.5e-8.
HWY_ATTR void Gelu_(int64_t count, const float* x, float* y, float* slope) {
  const RowTag<float> d;
  const auto one = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(d))) {
    const auto v = hn::Load(d, x + i);
    const auto bell = hn::Exp(d, hn::Mul(hn::Mul(v, v), hn::Set(d, -0.5f)));
    const auto t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f * 0.70710678f), hn::Abs(v), one));
    auto tail = hn::MulAdd(hn::Set(d, 1.061405429f), t, hn::Set(d, -1.453152027f));
    tail = hn::MulAdd(tail, t, hn::Set(d, 1.421413741f));
    tail = hn::MulAdd(tail, t, hn::Set(d, -0.284496736f));
    tail = hn::MulAdd(tail, t, hn::Set(d, 0.254829592f));
    tail = hn::Mul(hn::Mul(tail, t), hn::Mul(bell, hn::Set(d, 0.5f)));
    const auto phi = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), tail, hn::Sub(one, tail));
    hn::Store(hn::Mul(v, phi), d, y + i);
    if (slope) hn::Store(hn::MulAdd(hn::Mul(v, bell), hn::Set(d, 0.39894228f), phi), d, slope + i);
  }
}

// The reference: to the last bits.
HWY_ATTR void Gelu_(int64_t count, const double* x, double* y, double* slope) {
  for (int64_t i = 0; i < count; ++i) {
    const double v = x[i], phi = 0.5 * std::erfc(-v * M_SQRT1_2);
    y[i] = v * phi;
    if (slope) slope[i] = phi + v * std::exp(-0.5 * v * v) * 0.5 * M_2_SQRTPI * M_SQRT1_2;
  }
}

// The sum of f(vector, column) over the columns of a row; those behind `width` count as 0.
template <class Acc, class F>
HWY_INLINE Acc SumColumns(int64_t width, const F& f) {
  const RowTag<Acc> d;
  const auto lanes = int64_t(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t c = 0;
  for (; c + lanes <= width; c += lanes) sum = hn::Add(sum, f(c));
  if (c < width) sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, size_t(width - c)), f(c)));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class Acc>
HWY_ATTR void Norm_(int64_t rows, int64_t width, int64_t pitch, const Acc* x, Acc* out, Acc* rstd) {
  const RowTag<Acc> d;
  const auto lanes = int64_t(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, x += pitch, out += pitch) {
    const Acc mean =
        SumColumns<Acc>(width, [&](int64_t c) HWY_ATTR { return hn::Load(d, x + c); }) / Acc(width);
    const auto middle = hn::Set(d, mean);
    const Acc squares = SumColumns<Acc>(width, [&](int64_t c) HWY_ATTR {
      const auto off = hn::Sub(hn::Load(d, x + c), middle);
      return hn::Mul(off, off);
    });
    rstd[r] = Acc(1) / std::sqrt(squares / Acc(width) + Acc(kRowNormEps));
    const auto scale = hn::Set(d, rstd[r]);
    for (int64_t c = 0; c < pitch; c += lanes) {
      const auto normed = hn::Mul(hn::Sub(hn::Load(d, x + c), middle), scale);
      const bool is_whole = c + lanes <= width;
      const auto inside = hn::FirstN(d, size_t(c < width ? width - c : 0));
      hn::Store(is_whole ? normed : hn::IfThenElseZero(inside, normed), d, out + c);
    }
  }
}

template <class Acc>
HWY_ATTR void NormBackward_(int64_t rows, int64_t width, int64_t pitch, const Acc* normed,
                            const Acc* rstd, Acc* grad) {
  const RowTag<Acc> d;
  for (int64_t r = 0; r < rows; ++r, normed += pitch, grad += pitch) {
    const auto mean = hn::Set(d, SumColumns<Acc>(width, [&](int64_t c) HWY_ATTR {
                                   return hn::Load(d, grad + c);
                                 }) / Acc(width));
    const auto along = hn::Set(d, SumColumns<Acc>(width, [&](int64_t c) HWY_ATTR {
                                    return hn::Mul(hn::Load(d, grad + c), hn::Load(d, normed + c));
                                  }) / Acc(width));
    const auto scale = hn::Set(d, rstd[r]);
    for (int64_t c = 0; c < pitch; c += int64_t(hn::Lanes(d))) {
      const auto own = hn::Sub(hn::Load(d, grad + c), mean);
      const auto rest = hn::NegMulAdd(hn::Load(d, normed + c), along, own);
      hn::Store(hn::Mul(rest, scale), d, grad + c);
    }
  }
}

}  // namespace

// Highway's dispatch tables hold plain functions: one a dtype.
#define LACUNA_KERNELS(Name, Acc)                                                                 \
  HWY_ATTR void Product##Name(const RowProduct<Acc>& args) { Product_(args); }                    \
  HWY_ATTR void Outer##Name(const RowOuter<Acc>& args) { Outer_(args); }                          \
  HWY_ATTR void Gelu##Name(int64_t count, const Acc* x, Acc* y, Acc* slope) {                     \
    Gelu_(count, x, y, slope);                                                                    \
  }                                                                                               \
  HWY_ATTR void Norm##Name(int64_t rows, int64_t width, int64_t pitch, const Acc* x, Acc* out,    \
                           Acc* rstd) {                                                           \
    Norm_(rows, width, pitch, x, out, rstd);                                                      \
  }                                                                                               \
  HWY_ATTR void NormBackward##Name(int64_t rows, int64_t width, int64_t pitch, const Acc* normed, \
                                   const Acc* rstd, Acc* grad) {                                  \
    NormBackward_(rows, width, pitch, normed, rstd, grad);                                        \
  }
LACUNA_KERNELS(F32, float)
LACUNA_KERNELS(F64, double)
#undef LACUNA_KERNELS

}  // namespace HWY_NAMESPACE
}  // namespace lacuna
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lacuna {

#define LACUNA_DISPATCH(Name, Acc)                                                               \
  HWY_EXPORT(Product##Name);                                                                     \
  HWY_EXPORT(Outer##Name);                                                                       \
  HWY_EXPORT(Gelu##Name);                                                                        \
  HWY_EXPORT(Norm##Name);                                                                        \
  HWY_EXPORT(NormBackward##Name);                                                                \
  template <>                                                                                    \
  void row_product(const RowProduct<Acc>& args) {                                                \
    HWY_DYNAMIC_DISPATCH(Product##Name)(args);                                                   \
  }                                                                                              \
  template <>                                                                                    \
  void row_outer(const RowOuter<Acc>& args) {                                                    \
    HWY_DYNAMIC_DISPATCH(Outer##Name)(args);                                                     \
  }                                                                                              \
  template <>                                                                                    \
  void row_gelu(int64_t count, const Acc* x, Acc* y, Acc* slope) {                               \
    HWY_DYNAMIC_DISPATCH(Gelu##Name)(count, x, y, slope);                                        \
  }                                                                                              \
  template <>                                                                                    \
  void row_norm(int64_t rows, int64_t width, int64_t pitch, const Acc* x, Acc* out, Acc* rstd) { \
    HWY_DYNAMIC_DISPATCH(Norm##Name)(rows, width, pitch, x, out, rstd);                          \
  }                                                                                              \
  template <>                                                                                    \
  void row_norm_backward(int64_t rows, int64_t width, int64_t pitch, const Acc* normed,          \
                         const Acc* rstd, Acc* grad) {                                           \
    HWY_DYNAMIC_DISPATCH(NormBackward##Name)(rows, width, pitch, normed, rstd, grad);            \
  }
LACUNA_DISPATCH(F32, float)
LACUNA_DISPATCH(F64, double)
#undef LACUNA_DISPATCH

}  // namespace lacuna
#endif
