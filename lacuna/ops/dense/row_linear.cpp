#include "lacuna/ops/dense/row_linear.h"

#include "lacuna/core/system/threads.h"
#include "lacuna/ops/dense/row_kernels.h"

namespace lacuna {
namespace {

constexpr int64_t kLinearRows = 96;  // at a time: they stay in a cache

template <class Real>
void linear_block(const RowLinearCall<Real>& call, const Parameter<Real>* weight,
                  const Parameter<Real>* bias, int64_t first, Real* y) {
  using Acc = Parameter<Real>;
  const int64_t rows = std::min(kLinearRows, call.rows - first);
  const int64_t in_pitch = padded<Acc>(call.in), pitch = padded<Acc>(call.out);
  const Scratch<Acc> in(size_t(kLinearRows * in_pitch)), out(size_t(kLinearRows * pitch));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < call.in; ++k)
      in[size_t(r * in_pitch + k)] = Acc(call.x[(first + r) * call.in + k]);
  row_product<Acc>({rows, call.in, in_pitch, pitch, in.get(), weight, bias, out.get()});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < call.out; ++k)
      y[(first + r) * call.out + k] = Real(out[size_t(r * pitch + k)]);
}

}  // namespace

template <class Real>
void row_linear(const RowLinearCall<Real>& call, Real* y) {
  const auto weight = padded_matrix(call.weight, call.in, call.out);
  const auto bias = padded_matrix(call.bias, 1, call.out);
  parallel_for(uint64_t((call.rows + kLinearRows - 1) / kLinearRows), call.threads,
               [&](uint64_t block) {
                 linear_block(call, weight.get(), bias.get(), int64_t(block) * kLinearRows, y);
               });
}

template void row_linear<float>(const RowLinearCall<float>&, float*);
template void row_linear<BFloat16>(const RowLinearCall<BFloat16>&, BFloat16*);
template void row_linear<double>(const RowLinearCall<double>&, double*);

}  // namespace lacuna
