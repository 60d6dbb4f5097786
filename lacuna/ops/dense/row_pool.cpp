#include "lacuna/ops/dense/row_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lacuna/core/system/threads.h"
#include "lacuna/ops/dense/row_kernels.h"

namespace lacuna {
namespace {

constexpr int64_t kPoolRows = 96;  // kept genes at a time

// The weighted sum so far, e^(-most) times what it will be: no exponential overflows.
template <class Acc>
class SoftmaxSum {
 public:
  explicit SoftmaxSum(int64_t width) : sum_(size_t(width), Acc(0)) {}

  void add(Acc gate, const Acc* value) {
    if (gate > most_) {
      const Acc shrink = std::exp(most_ - gate);  // 0 before the first
      total_ *= shrink;
      for (Acc& number : sum_) number *= shrink;
      most_ = gate;
    }
    const Acc weight = std::exp(gate - most_);
    total_ += weight;
    for (size_t h = 0; h < sum_.size(); ++h) sum_[h] += weight * value[h];
  }
  void write(Acc* out) const {
    for (size_t h = 0; h < sum_.size(); ++h) out[h] = total_ > 0 ? sum_[h] / total_ : sum_[h];
  }

 private:
  std::vector<Acc> sum_;  // [H]
  Acc total_ = 0, most_ = -std::numeric_limits<Acc>::infinity();
};

template <class Real>
class SamplePool {
  using Acc = Parameter<Real>;

 public:
  explicit SamplePool(const RowPoolCall<Real>& call)
      : call_(call),
        pitch_(padded<Acc>(call.width)),
        hidden_pitch_(padded<Acc>(call.hidden)),
        hidden_weight_(padded_matrix(call.hidden_weight, call.width, call.hidden)),
        hidden_bias_(padded_matrix(call.hidden_bias, 1, call.hidden)),
        value_weight_(padded_matrix(call.value_weight, call.width, call.width)),
        value_bias_(padded_matrix(call.value_bias, 1, call.width)) {}

  void pool(int64_t sample, Acc* out) const {
    const Scratch<Acc> x(size_t(kPoolRows * pitch_)), value(size_t(kPoolRows * pitch_)),
        hidden(size_t(kPoolRows * hidden_pitch_));
    SoftmaxSum<Acc> sum(call_.width);
    int64_t rows = 0;
    for (int64_t n = 0; n < call_.nodes; ++n) {
      const int64_t at = n * call_.samples + sample;
      if (call_.keep[at]) {
        const Real* from = call_.x + at * call_.width;
        for (int64_t h = 0; h < call_.width; ++h) x[size_t(rows * pitch_ + h)] = Acc(from[h]);
        ++rows;
      }
      if (rows < kPoolRows && n + 1 < call_.nodes) continue;
      add_block(rows, x.get(), hidden.get(), value.get(), sum);
      rows = 0;
    }
    sum.write(out);
  }

 private:
  void add_block(int64_t rows, const Acc* x, Acc* hidden, Acc* value, SoftmaxSum<Acc>& sum) const {
    row_product<Acc>({rows, call_.width, pitch_, hidden_pitch_, x, hidden_weight_.get(),
                      hidden_bias_.get(), hidden});
    row_gelu<Acc>(rows * hidden_pitch_, hidden, hidden, nullptr);
    row_product<Acc>(
        {rows, call_.width, pitch_, pitch_, x, value_weight_.get(), value_bias_.get(), value});
    row_gelu<Acc>(rows * pitch_, value, value, nullptr);
    for (int64_t r = 0; r < rows; ++r) {
      Acc gate = call_.gate_bias[0];
      for (int64_t k = 0; k < call_.hidden; ++k)
        gate += hidden[r * hidden_pitch_ + k] * call_.gate_weight[k];
      sum.add(gate, value + r * pitch_);
    }
  }

  const RowPoolCall<Real>& call_;
  int64_t pitch_, hidden_pitch_;
  Scratch<Acc> hidden_weight_, hidden_bias_, value_weight_, value_bias_;
};

}  // namespace

template <class Real>
void row_pool(const RowPoolCall<Real>& call, Parameter<Real>* out) {
  const SamplePool<Real> samples(call);
  parallel_for(uint64_t(call.samples), call.threads,
               [&](uint64_t b) { samples.pool(int64_t(b), out + int64_t(b) * call.width); });
}

template void row_pool<float>(const RowPoolCall<float>&, float*);
template void row_pool<BFloat16>(const RowPoolCall<BFloat16>&, float*);
template void row_pool<double>(const RowPoolCall<double>&, double*);

}  // namespace lacuna
