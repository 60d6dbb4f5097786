// Whitening of pictures by frequency: after it, every spatial frequency has the same power over the
// rows that the statistic was taken from.
//
//   X  = DFT2(x - mean)                        of the last two axes
//   P  = mean over rows of |X|^2 / (Y * X)     by frequency
//   out = Re IDFT2(X / sqrt(P + epsilon * mean of P))
//
// mean is by pixel. The filter has no phase: edges stay where they are. Frames wrap around, as
// those of every DFT do. Axes before the last two are frames of their own, each with its own power.
//
// Frames are small (51 x 51) and of any size: the DFT is two products with small matrices, in f64.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/recording/transforms/transform_op.h"

namespace lacuna {
namespace {

// The DFT of frames [h, w] of real numbers. Only columns 0 .. w/2 of it are kept, `half` of them:
// the others mirror these.
class FrameSpectrum {
 public:
  FrameSpectrum(uint64_t h, uint64_t w) : h_(h), w_(w), half_(w / 2 + 1) {
    fill(cos_h_, sin_h_, h);
    fill(cos_w_, sin_w_, w);
  }
  uint64_t half() const { return half_; }

  // frame [h, w] -> re, im [h, half]
  void forward(const double* frame, std::vector<double>& re, std::vector<double>& im) const {
    std::vector<double> a(h_ * half_, 0.0), b(h_ * half_, 0.0);  // of each line
    for (uint64_t y = 0; y < h_; ++y)
      for (uint64_t x = 0; x < w_; ++x)
        for (uint64_t k = 0; k < half_; ++k) {
          a[y * half_ + k] += frame[y * w_ + x] * cos_w_[x * w_ + k];
          b[y * half_ + k] -= frame[y * w_ + x] * sin_w_[x * w_ + k];
        }
    turn_columns(a, b, -1, re, im);
  }
  // The reverse, without the factor h * w; the columns that were left out are added.
  void backward(const std::vector<double>& re, const std::vector<double>& im, double* frame) const {
    std::vector<double> a, b;
    turn_columns(re, im, 1, a, b);
    std::fill_n(frame, h_ * w_, 0.0);
    for (uint64_t y = 0; y < h_; ++y)
      for (uint64_t k = 0; k < half_; ++k) {
        const double twice = k == 0 || 2 * k == w_ ? 1 : 2;
        const double real = twice * a[y * half_ + k], imaginary = twice * b[y * half_ + k];
        for (uint64_t x = 0; x < w_; ++x)
          frame[y * w_ + x] += real * cos_w_[k * w_ + x] - imaginary * sin_w_[k * w_ + x];
      }
  }

 private:
  // [n, n] of cos and sin of 2 pi i j / n
  static void fill(std::vector<double>& cosine, std::vector<double>& sine, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i)
      for (uint64_t j = 0; j < n; ++j) {
        const double angle = 2 * std::numbers::pi * double(i * j % n) / double(n);
        cosine.push_back(std::cos(angle));
        sine.push_back(std::sin(angle));
      }
  }
  // Each column times exp(sign * 2 pi i ky y / h), summed.
  void turn_columns(const std::vector<double>& a, const std::vector<double>& b, double sign,
                    std::vector<double>& re, std::vector<double>& im) const {
    re.assign(h_ * half_, 0.0);
    im.assign(h_ * half_, 0.0);
    for (uint64_t i = 0; i < h_; ++i)
      for (uint64_t y = 0; y < h_; ++y) {
        const double c = cos_h_[i * h_ + y], s = sign * sin_h_[i * h_ + y];
        for (uint64_t k = 0; k < half_; ++k) {
          re[i * half_ + k] += c * a[y * half_ + k] - s * b[y * half_ + k];
          im[i * half_ + k] += c * b[y * half_ + k] + s * a[y * half_ + k];
        }
      }
  }

  uint64_t h_, w_, half_;
  std::vector<double> cos_h_, sin_h_, cos_w_, sin_w_;  // [h, h] and [w, w]
};

// Sums of frames and of their power, by plane.
class PowerLearner : public TransformOp::Learner {
 public:
  PowerLearner(const Shape& row, double epsilon)
      : h_(row[row.size() - 2]), w_(row.back()), epsilon_(epsilon), spectrum_(h_, w_) {
    planes_ = 1;
    for (size_t d = 0; d + 2 < row.size(); ++d) planes_ *= row[d];
    sum_.assign(planes_ * h_ * w_, 0.0);
    power_.assign(planes_ * h_ * spectrum_.half(), 0.0);
  }
  void add(const float* row, uint64_t columns) override {
    LACUNA_ASSERT(columns == sum_.size());
    if (!std::all_of(row, row + columns, [](float value) { return std::isfinite(value); })) return;
    ++count_;
    frame_.assign(row, row + columns);
    for (uint64_t c = 0; c < columns; ++c) sum_[c] += frame_[c];
    const uint64_t size = h_ * spectrum_.half();
    for (uint64_t p = 0; p < planes_; ++p) {
      spectrum_.forward(frame_.data() + p * h_ * w_, re_, im_);
      for (uint64_t i = 0; i < size; ++i) power_[p * size + i] += re_[i] * re_[i] + im_[i] * im_[i];
    }
  }
  // shift: the mean [columns]; divide: sqrt(P + epsilon * mean of P) [columns], all frequencies.
  OpStatistic finish() const override {
    OpStatistic statistic;
    const double count = std::max<double>(1, double(count_));
    std::vector<double> mean(sum_);
    for (double& value : mean) value /= count;
    statistic.shift.assign(mean.begin(), mean.end());
    std::vector<double> re, im, all(h_ * w_);
    const uint64_t half = spectrum_.half();
    for (uint64_t p = 0; p < planes_; ++p) {
      spectrum_.forward(mean.data() + p * h_ * w_, re, im);
      double total = 0;
      for (uint64_t y = 0; y < h_; ++y)
        for (uint64_t x = 0; x < w_; ++x) {
          const bool is_kept = x < half;  // else its mirror is
          const uint64_t i = is_kept ? y * half + x : (h_ - y) % h_ * half + (w_ - x);
          const double power = power_[p * h_ * half + i] / count - re[i] * re[i] - im[i] * im[i];
          all[y * w_ + x] = std::max(power, 0.0) / double(h_ * w_);
          total += all[y * w_ + x];
        }
      for (const double power : all) {
        const double root = std::sqrt(power + epsilon_ * total / double(h_ * w_));
        statistic.divide.push_back(root > 0 ? float(root) : 1.0f);
      }
    }
    return statistic;
  }

 private:
  uint64_t h_, w_, planes_;
  double epsilon_;
  FrameSpectrum spectrum_;
  uint64_t count_ = 0;
  std::vector<double> sum_, power_;  // [planes, h, w], [planes, h, half]
  std::vector<double> frame_, re_, im_;
};

class WhitenOp : public TransformOp {
 public:
  explicit WhitenOp(double epsilon) : epsilon_(epsilon) {}
  OpKind kind() const override { return OpKind::whole_segment; }
  Shape out_row(const Shape& row) const override {
    if (row.size() < 2)
      throw Error(
          "transform whiten: a row needs a height and a width, but has {} axes; "
          "standardise takes columns",
          row.size());
    return row;
  }
  std::unique_ptr<Learner> learner(const Shape& row) const override {
    return std::make_unique<PowerLearner>(row, epsilon_);
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic& statistic) const override {
    const uint64_t h = in.row[in.row.size() - 2], w = in.row.back();
    const uint64_t planes = in.columns() / (h * w);
    const FrameSpectrum spectrum(h, w);
    parallel_for(out.count * planes, 0, [&](uint64_t i) {
      const uint64_t first = i % planes * h * w;  // of the plane's columns
      const float* const from = in.at(out.first + i / planes) + first;
      float* const to = out.at(out.first + i / planes) + first;
      std::vector<double> frame(h * w), re, im;
      for (uint64_t c = 0; c < h * w; ++c)
        frame[c] = double(from[c]) - double(statistic.shift[first + c]);
      spectrum.forward(frame.data(), re, im);
      for (uint64_t y = 0; y < h; ++y)
        for (uint64_t k = 0; k < spectrum.half(); ++k) {
          const double by = double(statistic.divide[first + y * w + k]) * double(h * w);
          re[y * spectrum.half() + k] /= by;
          im[y * spectrum.half() + k] /= by;
        }
      spectrum.backward(re, im, frame.data());
      std::copy(frame.begin(), frame.end(), to);
    });
  }

 private:
  double epsilon_;
};

}  // namespace

std::unique_ptr<TransformOp> make_whiten_op(const std::string& name, const Json& json) {
  if (name != "whiten") return nullptr;
  const OpSettings settings(name, json, {"epsilon", "over", "rows", "split"});
  check_statistic_settings(settings, name);
  const double epsilon = settings.number("epsilon", 1e-3);
  if (!(epsilon >= 0) || epsilon > 1e6)
    throw Error("transform whiten: epsilon is {}, but must be 0 or more, a part of the mean power",
                epsilon);
  return std::make_unique<WhitenOp>(epsilon);
}

}  // namespace lacuna
