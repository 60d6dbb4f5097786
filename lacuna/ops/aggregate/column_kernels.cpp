#include "lacuna/ops/aggregate/column_kernels.h"

#include <cstring>
#include <limits>

// AVX-512, AVX2 and portable code; the vectors of the targets left out have no size known to the
// compiler, or gain nothing over these.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lacuna/ops/aggregate/column_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lacuna {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most one cache line.
template <class T>
using Tag = hn::CappedTag<T, size_t(kCacheLine) / sizeof(T)>;

template <class Acc, class Real>
HWY_INLINE Acc widen(Real value) {
  if constexpr (std::is_same_v<Real, BFloat16>) {
    return float(value);
  } else {
    return value;
  }
}

template <class Real>
HWY_ATTR void Pack_(const Pack<Real>& args, int64_t begin, int64_t end) {
  using Acc = Parameter<Real>;
  constexpr int64_t kAhead = 8;  // rows stand far apart, where no hardware prefetcher looks
  const Columns s = args.columns;
  for (int64_t row = begin; row < end; ++row) {
    const Real* HWY_RESTRICT source = args.source + row * s.pitch() + s.first;
    Acc* HWY_RESTRICT block = args.block + row * s.block_columns;
    if (row + kAhead < end) {
      const auto* next = reinterpret_cast<const char*>(source + kAhead * s.pitch());
      hwy::Prefetch(next);
      hwy::Prefetch(next + s.count * int64_t(sizeof(Real)) - 1);
    }
    if (args.scale == nullptr) {
      for (int64_t c = 0; c < s.count; ++c) block[c] = widen<Acc>(source[c]);
    } else {
      for (int64_t b = s.first_sample(); b <= s.last_sample(); ++b) {
        const double scale = args.scale[row * s.batch + b];
        for (int64_t c = s.begin_of(b); c < s.end_of(b); ++c)
          block[c] = scale == 0 ? Acc(0) : Acc(double(widen<Acc>(source[c])) * scale);
      }
    }
    for (int64_t c = s.count; c < s.block_columns; ++c) block[c] = 0;
  }
}

// Writes a finished row.
template <class Real, class Acc>
HWY_INLINE void WriteRow(const Columns& s, const Acc* HWY_RESTRICT row, Real* HWY_RESTRICT out) {
  HWY_ALIGN Real rounded[2 * kCacheLine / sizeof(Acc)];
  const Real* from = rounded;
  if constexpr (std::is_same_v<Real, Acc>) {
    from = row;
  } else {
    for (int64_t c = 0; c < s.count; ++c) rounded[c] = Real(row[c]);
  }
  std::memcpy(out, from, size_t(s.count) * sizeof(Real));
}

enum class Step { sum, values, mask, mask_values, maximum };

// Reduces the neighbours of one row, in order, each column by itself.
template <Step kStep, int kVectors, class Index, class Acc>
HWY_INLINE void ReduceRow(const Acc* HWY_RESTRICT block, const Index* HWY_RESTRICT neighbour,
                          const uint32_t* HWY_RESTRICT edge, const Acc* HWY_RESTRICT values,
                          const uint8_t* HWY_RESTRICT mask, uint32_t zero_row, uint32_t begin,
                          uint32_t end, Acc* HWY_RESTRICT result) {
  const Tag<Acc> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kColumns = kVectors * kLanes;
  hn::Vec<decltype(d)> sum[kVectors];
  for (auto& vector : sum)
    vector = hn::Set(d, kStep == Step::maximum ? -std::numeric_limits<Acc>::infinity() : Acc(0));
  for (uint32_t k = begin; k < end; ++k) {
    size_t node = neighbour[k];
    if constexpr (kStep == Step::mask || kStep == Step::mask_values)
      node = mask[edge[k]] != 0 ? node : zero_row;
    const Acc* row = block + node * kColumns;
    if constexpr (kStep == Step::values || kStep == Step::mask_values) {
      const auto value = hn::Set(d, values[k]);
      for (int i = 0; i < kVectors; ++i)
        sum[i] = hn::MulAdd(value, hn::Load(d, row + size_t(i) * kLanes), sum[i]);
    } else if constexpr (kStep == Step::maximum) {
      for (int i = 0; i < kVectors; ++i) {
        const auto next = hn::Load(d, row + size_t(i) * kLanes);
        sum[i] = hn::IfThenElse(hn::Or(hn::Gt(next, sum[i]), hn::IsNaN(next)), next, sum[i]);
      }
    } else {
      for (int i = 0; i < kVectors; ++i)
        sum[i] = hn::Add(sum[i], hn::Load(d, row + size_t(i) * kLanes));
    }
  }
  for (int i = 0; i < kVectors; ++i) hn::Store(sum[i], d, result + size_t(i) * kLanes);
}

// What happens to a row once its neighbours are reduced.
template <class Real, class Acc>
HWY_INLINE void FinishRow(const Walk<Real>& args, int64_t row, int64_t place,
                          Acc* HWY_RESTRICT result) {
  const Columns& s = args.columns;
  if (args.scale != nullptr) {
    for (int64_t b = s.first_sample(); b <= s.last_sample(); ++b) {
      const double scale = args.scale[row * s.batch + b];
      for (int64_t c = s.begin_of(b); c < s.end_of(b); ++c)
        result[c] = scale == 0 ? Acc(0) : Acc(double(result[c]) * scale);
    }
  }
  if (args.self != nullptr) {
    const Acc* HWY_RESTRICT self = args.self + row * s.block_columns;
    for (int64_t c = 0; c < s.block_columns; ++c) result[c] += args.self_factor * self[c];
  }
  if (args.partial != nullptr) {
    Acc* HWY_RESTRICT partial = args.partial + row * s.block_columns;
    for (int64_t c = 0; c < s.block_columns; ++c)
      partial[c] = args.add ? partial[c] + result[c] : result[c];
  } else {
    WriteRow(s, result, args.out + place * args.out_pitch + args.out_first);
  }
}

template <Step kStep, int kLines, class Index, class Real>
HWY_ATTR HWY_NOINLINE void WalkRows(const Walk<Real>& args, int64_t begin, int64_t end) {
  using Acc = Parameter<Real>;
  constexpr int kVectors = kLines * int(kLineColumns<Acc>) / int(hn::MaxLanes(Tag<Acc>()));
  const auto* neighbour = static_cast<const Index*>(args.csr.neighbour);
  HWY_ALIGN Acc result[2 * kLineColumns<Acc>];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = args.list.row_of(i);
    ReduceRow<kStep, kVectors>(args.block, neighbour, args.csr.edge, args.values, args.mask,
                               args.zero_row, args.csr.ptr[row], args.csr.ptr[row + 1], result);
    FinishRow(args, row, args.list.place_of(i), result);
  }
}

template <Step kStep, class Real>
HWY_ATTR void WalkStep(const Walk<Real>& args, int64_t begin, int64_t end) {
  const bool two_lines = args.columns.block_columns == 2 * kLineColumns<Parameter<Real>>;
  if (args.index_bytes == 2)
    two_lines ? WalkRows<kStep, 2, uint16_t>(args, begin, end)
              : WalkRows<kStep, 1, uint16_t>(args, begin, end);
  else
    two_lines ? WalkRows<kStep, 2, uint32_t>(args, begin, end)
              : WalkRows<kStep, 1, uint32_t>(args, begin, end);
}

template <class Real>
HWY_ATTR void Walk_(const Walk<Real>& args, int64_t begin, int64_t end) {
  if (args.maximum) return WalkStep<Step::maximum>(args, begin, end);
  if (args.mask != nullptr)
    return args.values != nullptr ? WalkStep<Step::mask_values>(args, begin, end)
                                  : WalkStep<Step::mask>(args, begin, end);
  return args.values != nullptr ? WalkStep<Step::values>(args, begin, end)
                                : WalkStep<Step::sum>(args, begin, end);
}

template <bool kMasked, int kLines, class Index, class Real>
HWY_ATTR void ScatterRows(const Scatter<Real>& args, int64_t begin, int64_t end) {
  using Acc = Parameter<Real>;
  const Tag<Acc> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kColumns = kLines * kLineColumns<Acc>;
  const auto* neighbour = static_cast<const Index*>(args.csr.neighbour);
  HWY_ALIGN Acc grad[kColumns] = {};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = args.list.row_of(i);
    const Real* from = args.grad + args.list.place_of(i) * args.grad_pitch + args.grad_first;
    for (int64_t c = 0; c < args.columns.count; ++c) grad[c] = widen<Acc>(from[c]);
    const auto add = [&](size_t node, Acc factor) HWY_ATTR {
      Acc* to = args.partial + node * kColumns;
      for (size_t c = 0; c < kColumns; c += kLanes)
        hn::Store(hn::MulAdd(hn::Set(d, factor), hn::Load(d, grad + c), hn::Load(d, to + c)), d,
                  to + c);
    };
    for (uint32_t k = args.csr.ptr[row]; k < args.csr.ptr[row + 1]; ++k)
      if (!kMasked || args.mask[args.csr.edge[k]] != 0)
        add(neighbour[k], args.values ? args.values[k] : Acc(1));
    add(size_t(row), args.self_factor);
  }
}

template <class Real>
HWY_ATTR void Scatter_(const Scatter<Real>& args, int64_t begin, int64_t end) {
  const bool two_lines = args.columns.block_columns == 2 * kLineColumns<Parameter<Real>>;
  const auto with_index = [&]<class Index>(Index) HWY_ATTR {
    if (args.mask != nullptr)
      two_lines ? ScatterRows<true, 2, Index>(args, begin, end)
                : ScatterRows<true, 1, Index>(args, begin, end);
    else
      two_lines ? ScatterRows<false, 2, Index>(args, begin, end)
                : ScatterRows<false, 1, Index>(args, begin, end);
  };
  args.index_bytes == 2 ? with_index(uint16_t()) : with_index(uint32_t());
}

template <class Real>
HWY_ATTR void Unpack_(const Columns& columns, const Parameter<Real>* block, Real* out,
                      int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    WriteRow(columns, block + row * columns.block_columns,
             out + row * columns.pitch() + columns.first);
}

// The source of the row's maximum in every column; `none` where all neighbours are -infinity or
// there are none.
template <class Index, class Acc, class Node>
HWY_INLINE void ArgMaxRow(const Acc* HWY_RESTRICT block, const Index* HWY_RESTRICT neighbour,
                          uint32_t begin, uint32_t end, int64_t columns, Node none,
                          Node* HWY_RESTRICT source) {
  const Tag<Acc> d;
  const Tag<Node> nodes;  // as many lanes
  const auto lanes = int64_t(hn::Lanes(d));
  for (int64_t c = 0; c < columns; c += lanes) {
    auto best = hn::Set(d, -std::numeric_limits<Acc>::infinity());
    auto winner = hn::Set(nodes, none);
    for (uint32_t k = begin; k < end; ++k) {
      const auto next = hn::Load(d, block + int64_t(neighbour[k]) * columns + c);
      const auto first_nan = hn::AndNot(hn::IsNaN(best), hn::IsNaN(next));
      const auto take = hn::Or(hn::Gt(next, best), first_nan);
      best = hn::IfThenElse(take, next, best);
      winner =
          hn::IfThenElse(hn::RebindMask(nodes, take), hn::Set(nodes, Node(neighbour[k])), winner);
    }
    hn::Store(winner, nodes, source + c);
  }
}

template <class Index, class Real>
HWY_ATTR void ScatterMaxRows(const ScatterMax<Real>& args, int64_t rows) {
  using Acc = Parameter<Real>;
  using Node = hwy::MakeUnsigned<Acc>;
  constexpr Node kNone = UINT32_MAX;  // no node has this index: there are at most 2^32 - 1
  const Columns s = args.columns;
  const auto* neighbour = static_cast<const Index*>(args.csr.neighbour);
  HWY_ALIGN Node source[2 * kLineColumns<Acc>];
  for (int64_t row = 0; row < rows; ++row) {
    const uint32_t begin = args.csr.ptr[row], end = args.csr.ptr[row + 1];
    ArgMaxRow(args.block, neighbour, begin, end, s.block_columns, kNone, source);
    for (int64_t b = s.first_sample(); b <= s.last_sample(); ++b) {
      if (args.has_neighbour[row * s.batch + b] == 0) continue;
      for (int64_t c = s.begin_of(b); c < s.end_of(b); ++c) {
        Node winner = source[c];
        for (uint32_t k = begin; winner == kNone; ++k)  // all are -infinity: the first kept one
          if (!args.removed->contains(b, neighbour[k])) winner = neighbour[k];
        args.partial[int64_t(winner) * s.block_columns + c] +=
            widen<Acc>(args.grad_out[row * s.pitch() + s.first + c]);
      }
    }
  }
}

template <class Real>
HWY_ATTR void ScatterMax_(const ScatterMax<Real>& args, int64_t rows) {
  args.index_bytes == 2 ? ScatterMaxRows<uint16_t>(args, rows)
                        : ScatterMaxRows<uint32_t>(args, rows);
}

template <int kLines, class Index, class Acc>
HWY_ATTR void EdgeDotRows(const EdgeDot<Acc>& args, int64_t begin, int64_t end) {
  const Tag<Acc> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kColumns = kLines * kLineColumns<Acc>;
  const auto* neighbour = static_cast<const Index*>(args.csr.neighbour);
  for (int64_t row = begin; row < end; ++row) {
    const Acc* b = args.row_block + size_t(row) * kColumns;
    for (uint32_t k = args.csr.ptr[row]; k < args.csr.ptr[row + 1]; ++k) {
      if (args.mask != nullptr && args.mask[args.csr.edge[k]] == 0) continue;
      const Acc* a = args.neighbour_block + size_t(neighbour[k]) * kColumns;
      auto sum = hn::Mul(hn::Load(d, a), hn::Load(d, b));
      for (size_t c = kLanes; c < kColumns; c += kLanes)
        sum = hn::MulAdd(hn::Load(d, a + c), hn::Load(d, b + c), sum);
      args.grad[k] += hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

template <class Acc>
HWY_ATTR void EdgeDot_(const EdgeDot<Acc>& args, int64_t begin, int64_t end) {
  const bool two_lines = args.columns.block_columns == 2 * kLineColumns<Acc>;
  if (args.index_bytes == 2)
    two_lines ? EdgeDotRows<2, uint16_t>(args, begin, end)
              : EdgeDotRows<1, uint16_t>(args, begin, end);
  else
    two_lines ? EdgeDotRows<2, uint32_t>(args, begin, end)
              : EdgeDotRows<1, uint32_t>(args, begin, end);
}

template <class Real>
HWY_ATTR void RepeatRow_(const Real* row, int64_t width, int64_t copies, Real* out) {
  const size_t bytes = size_t(width) * sizeof(Real);
  const bool whole_lines =
      bytes % kCacheLine == 0 && reinterpret_cast<uintptr_t>(out) % kCacheLine == 0;
  for (int64_t i = 0; i < copies; ++i) {
    if (!whole_lines) {
      std::memcpy(out + i * width, row, bytes);
      continue;
    }
    const Tag<uint8_t> d;
    for (size_t at = 0; at < bytes; at += hn::Lanes(d))
      hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(row) + at), d,
                 reinterpret_cast<uint8_t*>(out + i * width) + at);
  }
  hwy::FlushStream();
}

template <class Real>
HWY_ATTR double Dot_(const Real* a, const Real* b, int64_t count) {
  using Acc = Parameter<Real>;
  constexpr int64_t kSums = 32;
  Acc sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int64_t j = 0; j < kSums; ++j) sums[j] += widen<Acc>(a[i + j]) * widen<Acc>(b[i + j]);
  for (; i < count; ++i) sums[i % kSums] += widen<Acc>(a[i]) * widen<Acc>(b[i]);
  double total = 0;
  for (const Acc sum : sums) total += double(sum);
  return total;
}

}  // namespace

// Highway's dispatch tables hold plain functions: one a dtype.
#define LACUNA_KERNELS(Name, Real)                                                            \
  HWY_ATTR void Pack##Name(const Pack<Real>& args, int64_t begin, int64_t end) {              \
    Pack_(args, begin, end);                                                                  \
  }                                                                                           \
  HWY_ATTR void Walk##Name(const Walk<Real>& args, int64_t begin, int64_t end) {              \
    Walk_(args, begin, end);                                                                  \
  }                                                                                           \
  HWY_ATTR void Scatter##Name(const Scatter<Real>& args, int64_t begin, int64_t end) {        \
    Scatter_(args, begin, end);                                                               \
  }                                                                                           \
  HWY_ATTR void Unpack##Name(const Columns& columns, const Parameter<Real>* block, Real* out, \
                             int64_t begin, int64_t end) {                                    \
    Unpack_(columns, block, out, begin, end);                                                 \
  }                                                                                           \
  HWY_ATTR void ScatterMax##Name(const ScatterMax<Real>& args, int64_t rows) {                \
    ScatterMax_(args, rows);                                                                  \
  }                                                                                           \
  HWY_ATTR void RepeatRow##Name(const Real* row, int64_t width, int64_t copies, Real* out) {  \
    RepeatRow_(row, width, copies, out);                                                      \
  }                                                                                           \
  HWY_ATTR double Dot##Name(const Real* a, const Real* b, int64_t count) {                    \
    return Dot_(a, b, count);                                                                 \
  }
LACUNA_KERNELS(F32, float)
LACUNA_KERNELS(BF16, BFloat16)
LACUNA_KERNELS(F64, double)
#undef LACUNA_KERNELS
HWY_ATTR void FillBytes(uint8_t value, uint64_t count, uint8_t* out) {
  const Tag<uint8_t> d;
  const auto line = hn::Set(d, value);
  uint64_t i = 0;
  if (reinterpret_cast<uintptr_t>(out) % kCacheLine == 0)
    for (; i + kCacheLine <= count; i += kCacheLine)
      for (uint64_t j = 0; j < kCacheLine; j += hn::Lanes(d)) hn::Stream(line, d, out + i + j);
  std::memset(out + i, value, count - i);
  hwy::FlushStream();
}
HWY_ATTR void EdgeDotF32(const EdgeDot<float>& args, int64_t begin, int64_t end) {
  EdgeDot_(args, begin, end);
}
HWY_ATTR void EdgeDotF64(const EdgeDot<double>& args, int64_t begin, int64_t end) {
  EdgeDot_(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lacuna
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lacuna {

#define LACUNA_DISPATCH(Name, Real)                                                           \
  HWY_EXPORT(Pack##Name);                                                                     \
  HWY_EXPORT(Walk##Name);                                                                     \
  HWY_EXPORT(Scatter##Name);                                                                  \
  HWY_EXPORT(Unpack##Name);                                                                   \
  HWY_EXPORT(ScatterMax##Name);                                                               \
  HWY_EXPORT(RepeatRow##Name);                                                                \
  HWY_EXPORT(Dot##Name);                                                                      \
  template <>                                                                                 \
  void pack(const Pack<Real>& args, int64_t begin, int64_t end) {                             \
    HWY_DYNAMIC_DISPATCH(Pack##Name)(args, begin, end);                                       \
  }                                                                                           \
  template <>                                                                                 \
  void walk(const Walk<Real>& args, int64_t begin, int64_t end) {                             \
    HWY_DYNAMIC_DISPATCH(Walk##Name)(args, begin, end);                                       \
  }                                                                                           \
  template <>                                                                                 \
  void scatter(const Scatter<Real>& args, int64_t begin, int64_t end) {                       \
    HWY_DYNAMIC_DISPATCH(Scatter##Name)(args, begin, end);                                    \
  }                                                                                           \
  template <>                                                                                 \
  void unpack(const Columns& columns, const Parameter<Real>* block, Real* out, int64_t begin, \
              int64_t end) {                                                                  \
    HWY_DYNAMIC_DISPATCH(Unpack##Name)(columns, block, out, begin, end);                      \
  }                                                                                           \
  template <>                                                                                 \
  void scatter_max(const ScatterMax<Real>& args, int64_t rows) {                              \
    HWY_DYNAMIC_DISPATCH(ScatterMax##Name)(args, rows);                                       \
  }                                                                                           \
  template <>                                                                                 \
  void repeat_row(const Real* row, int64_t width, int64_t copies, Real* out) {                \
    HWY_DYNAMIC_DISPATCH(RepeatRow##Name)(row, width, copies, out);                           \
  }                                                                                           \
  template <>                                                                                 \
  double dot(const Real* a, const Real* b, int64_t count) {                                   \
    return HWY_DYNAMIC_DISPATCH(Dot##Name)(a, b, count);                                      \
  }
LACUNA_DISPATCH(F32, float)
LACUNA_DISPATCH(BF16, BFloat16)
LACUNA_DISPATCH(F64, double)
#undef LACUNA_DISPATCH

HWY_EXPORT(FillBytes);
void fill_bytes(uint8_t value, uint64_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(FillBytes)(value, count, out);
}

HWY_EXPORT(EdgeDotF32);
HWY_EXPORT(EdgeDotF64);
template <>
void edge_dot(const EdgeDot<float>& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(EdgeDotF32)(args, begin, end);
}
template <>
void edge_dot(const EdgeDot<double>& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(EdgeDotF64)(args, begin, end);
}

}  // namespace lacuna
#endif
