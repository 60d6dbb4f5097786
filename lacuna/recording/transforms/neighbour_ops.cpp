// Ops that read rows around a row. What lies beyond a trial is not in `in`.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lacuna/core/error.h"
#include "lacuna/recording/transforms/transform_op.h"

namespace lacuna {
namespace {

class DifferenceOp : public TransformOp {
 public:
  explicit DifferenceOp(uint64_t lag) : lag_(lag) {}
  OpKind kind() const override { return OpKind::neighbour; }
  uint64_t rows_before() const override { return lag_; }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const uint64_t columns = out.columns();
    for (uint64_t t = out.first; t < out.first + out.count; ++t)
      for (uint64_t c = 0; c < columns; ++c)
        out.at(t)[c] = t >= in.first + lag_ ? in.at(t)[c] - in.at(t - lag_)[c] : 0.0f;
  }

 private:
  uint64_t lag_;
};

class SmoothOp : public TransformOp {
 public:
  SmoothOp(double sigma, bool causal) : causal_(causal) {
    for (uint64_t d = 0; double(d) <= std::ceil(4 * sigma); ++d)
      weights_.push_back(std::exp(-double(d * d) / (2 * sigma * sigma)));
  }
  OpKind kind() const override { return OpKind::neighbour; }
  uint64_t rows_before() const override { return weights_.size() - 1; }
  uint64_t rows_after() const override { return causal_ ? 0 : weights_.size() - 1; }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const uint64_t columns = out.columns();
    std::vector<double> sum(columns);
    for (uint64_t t = out.first; t < out.first + out.count; ++t) {
      const uint64_t begin = std::max(in.first, t - std::min(t, rows_before()));
      const uint64_t end = std::min(in.first + in.count, t + rows_after() + 1);
      std::fill(sum.begin(), sum.end(), 0.0);
      double total = 0;
      for (uint64_t r = begin; r < end; ++r) {
        const double weight = weights_[r < t ? t - r : r - t];
        total += weight;
        for (uint64_t c = 0; c < columns; ++c) sum[c] += weight * double(in.at(r)[c]);
      }
      for (uint64_t c = 0; c < columns; ++c) out.at(t)[c] = float(sum[c] / total);
    }
  }

 private:
  bool causal_;
  std::vector<double> weights_;  // by distance
};

class BasisOp : public TransformOp {
 public:
  BasisOp(uint64_t functions, uint64_t lags) : functions_(functions), lags_(lags) {
    const double spacing = double(lags - 1) / double(functions - 1);
    for (uint64_t k = 0; k < functions; ++k)
      for (uint64_t l = 0; l < lags; ++l) {
        const double distance = (double(l) - double(k) * spacing) / spacing;
        weights_.push_back(std::abs(distance) < 1 ? (1 + std::cos(std::numbers::pi * distance)) / 2
                                                  : 0.0);
      }
  }
  OpKind kind() const override { return OpKind::neighbour; }
  uint64_t rows_before() const override { return lags_ - 1; }
  Shape out_row(const Shape& row) const override {
    if (row.size() > 1)
      throw Error("transform basis: rows are lists of numbers, but these have {} axes", row.size());
    return {(row.empty() ? 1 : row[0]) * functions_};
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const uint64_t columns = in.columns();
    for (uint64_t t = out.first; t < out.first + out.count; ++t)
      for (uint64_t c = 0; c < columns; ++c)
        for (uint64_t k = 0; k < functions_; ++k) {
          double sum = 0;
          for (uint64_t l = 0; l < lags_ && t >= in.first + l; ++l)
            sum += weights_[k * lags_ + l] * double(in.at(t - l)[c]);
          out.at(t)[c * functions_ + k] = float(sum);
        }
  }

 private:
  uint64_t functions_, lags_;
  std::vector<double> weights_;  // [functions, lags]
};

}  // namespace

std::unique_ptr<TransformOp> make_neighbour_op(const std::string& name, const Json& json) {
  if (name == "difference") {
    const uint64_t lag = OpSettings(name, json, {"lag"}).count("lag", 1);
    if (lag == 0) throw Error("transform difference: lag is 0, and the difference with it");
    return std::make_unique<DifferenceOp>(lag);
  }
  if (name == "smooth") {
    const OpSettings settings(name, json, {"sigma", "causal"});
    const double sigma = settings.number("sigma");
    if (!(sigma > 0) || sigma > 10'000) throw Error("transform smooth: sigma of {} rows", sigma);
    return std::make_unique<SmoothOp>(sigma, settings.flag("causal"));
  }
  if (name == "basis") {
    const OpSettings settings(name, json, {"functions", "lags"});
    const uint64_t functions = settings.count("functions"), lags = settings.count("lags");
    if (functions < 2 || lags < functions)
      throw Error("transform basis: {} functions over {} lags; at least 2, and as many lags",
                  functions, lags);
    return std::make_unique<BasisOp>(functions, lags);
  }
  return nullptr;
}

}  // namespace lacuna
