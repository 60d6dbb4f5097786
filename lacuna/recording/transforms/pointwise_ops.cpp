// Ops whose every result needs one value, or one row.
#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/recording/transforms/transform_op.h"

namespace lacuna {
namespace {

// A function of one value.
template <class F>
class ValueOp : public TransformOp {
 public:
  explicit ValueOp(F f) : f_(f) {}
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const float* from = in.at(out.first);
    for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = f_(from[i]);
  }

 private:
  F f_;
};
template <class F>
std::unique_ptr<TransformOp> value_op(F f) {
  return std::make_unique<ValueOp<F>>(f);
}

class CastOp : public TransformOp {
 public:
  CastOp(DType dtype, bool rounds) : dtype_(dtype), rounds_(rounds) {}
  bool keeps_bytes() const override { return true; }
  std::optional<DType> casts_to() const override { return dtype_; }
  std::string loss() const override {
    if (dtype_ == DType::bf16) return "cast to bf16 keeps 8 bits of precision";
    return dtype_ == DType::u8 && rounds_ ? "cast to u8 rounds, and cuts off at 0 and 255" : "";
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const float* from = in.at(out.first);
    for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = cast(from[i], in, i, out);
  }

 private:
  float cast(float value, const RowBlock&, size_t i, const RowBlock& out) const {
    if (dtype_ == DType::bf16) return float(BFloat16(value));
    if (dtype_ != DType::u8) return value;
    const float rounded = std::clamp(std::nearbyint(value), 0.0f, 255.0f);
    if (!rounds_ && rounded != value)
      throw Error(
          "transform cast to u8: row {} holds {}, which is no whole number from 0 to 255; give "
          "round: true, or keep f32",
          out.first + i / std::max<uint64_t>(1, out.columns()), value);
    return std::isnan(value) ? 0.0f : rounded;
  }

  DType dtype_;
  bool rounds_;
};

class SplitReluOp : public TransformOp {
 public:
  Shape out_row(const Shape& row) const override {
    Shape wide = row.empty() ? Shape{1} : row;
    wide.back() *= 2;
    return wide;
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const uint64_t last = in.row.empty() ? 1 : in.row.back();
    const float* from = in.at(out.first);
    float* to = out.values.data();
    for (uint64_t i = 0; i < out.values.size() / (2 * last); ++i, from += last, to += 2 * last)
      for (uint64_t c = 0; c < last; ++c) {
        to[c] = std::isnan(from[c]) ? from[c] : std::max(from[c], 0.0f);
        to[last + c] = std::isnan(from[c]) ? from[c] : std::max(-from[c], 0.0f);
      }
  }
};

class UnsqueezeOp : public TransformOp {
 public:
  explicit UnsqueezeOp(uint64_t axis) : axis_(axis) {}
  bool keeps_bytes() const override { return true; }
  Shape out_row(const Shape& row) const override {
    if (axis_ > row.size())
      throw Error("transform unsqueeze: axis {} of a row that has {}", axis_, row.size());
    Shape shape = row;
    shape.insert(shape.begin() + int64_t(axis_), 1);
    return shape;
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    std::copy_n(in.at(out.first), out.values.size(), out.values.data());
  }

 private:
  uint64_t axis_;
};

class ColumnsOp : public TransformOp {
 public:
  explicit ColumnsOp(std::vector<uint64_t> take) : take_(std::move(take)) {}
  bool keeps_bytes() const override { return true; }
  Shape out_row(const Shape& row) const override {
    if (row.empty()) throw Error("transform columns: rows are single numbers");
    for (const uint64_t column : take_)
      if (column >= row.back())
        throw Error("transform columns: takes column {}, but there are {} (from 0)", column,
                    row.back());
    Shape shape = row;
    shape.back() = take_.size();
    return shape;
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const float* from = in.at(out.first);
    float* to = out.values.data();
    for (uint64_t i = 0; i < out.values.size() / take_.size(); ++i, from += in.row.back())
      for (const uint64_t column : take_) *to++ = from[column];
  }

 private:
  std::vector<uint64_t> take_;
};

}  // namespace

std::unique_ptr<TransformOp> make_pointwise_op(const std::string& name, const Json& json) {
  if (name == "normalise") {
    const OpSettings settings(name, json, {"mean", "scale"});
    const float mean = float(settings.number("mean", 127)),
                scale = float(settings.number("scale", 255));
    if (scale == 0) throw Error("transform normalise: scale is 0");
    return value_op([=](float x) { return (x - mean) / scale; });
  }
  if (name == "scale") {
    const float by = float(OpSettings(name, json, {"by"}).number("by"));
    return value_op([=](float x) { return x * by; });
  }
  if (name == "symlog") {
    OpSettings(name, json, {});
    return value_op([](float x) { return std::copysign(std::log1p(std::abs(x)), x); });
  }
  if (name == "split_relu") {
    OpSettings(name, json, {});
    return std::make_unique<SplitReluOp>();
  }
  if (name == "cast") {
    const OpSettings settings(name, json, {"dtype", "round"});
    const DType dtype = dtype_from_name(settings.text("dtype", "f32"));
    if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::u8)
      throw Error("transform cast: to f32, bf16 or u8, not {}", lacuna::name(dtype));
    return std::make_unique<CastOp>(dtype, settings.flag("round"));
  }
  if (name == "unsqueeze")
    return std::make_unique<UnsqueezeOp>(OpSettings(name, json, {"axis"}).count("axis", 0));
  if (name == "columns")
    return std::make_unique<ColumnsOp>(OpSettings(name, json, {"take"}).counts("take"));
  return nullptr;
}

}  // namespace lacuna
