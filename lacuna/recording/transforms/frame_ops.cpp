// Ops on the last two axes of a row: pictures.
#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/recording/transforms/transform_op.h"

namespace lacuna {
namespace {

void check_is_frame(const char* op, const Shape& row) {
  if (row.size() < 2)
    throw Error("transform {}: a row needs a height and a width, but has {} axes", op, row.size());
}

class CropOp : public TransformOp {
 public:
  CropOp(uint64_t y, uint64_t x, uint64_t height, uint64_t width)
      : y_(y), x_(x), height_(height), width_(width) {}
  bool keeps_bytes() const override { return true; }
  Shape out_row(const Shape& row) const override {
    check_is_frame("crop", row);
    const uint64_t h = row[row.size() - 2], w = row.back();
    if (height_ == 0 || width_ == 0 || y_ + height_ > h || x_ + width_ > w)
      throw Error("transform crop: {} x {} pixels from ({}, {}) on do not lie within {} x {}",
                  height_, width_, y_, x_, h, w);
    Shape shape = row;
    shape[row.size() - 2] = height_;
    shape.back() = width_;
    return shape;
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const uint64_t h = in.row[in.row.size() - 2], w = in.row.back();
    const float* from = in.at(out.first);
    float* to = out.values.data();
    for (uint64_t i = 0; i < out.values.size() / (height_ * width_); ++i, from += h * w)
      for (uint64_t y = 0; y < height_; ++y, to += width_)
        std::copy_n(from + (y_ + y) * w + x_, width_, to);
  }

 private:
  uint64_t y_, x_, height_, width_;
};

// Which old pixels a new one covers, and how much of each: they sum to 1.
struct Covered {
  uint64_t first;
  std::vector<float> weights;
};
std::vector<Covered> cover(uint64_t from, uint64_t to) {
  std::vector<Covered> all;
  const double length = double(from) / double(to);
  for (uint64_t i = 0; i < to; ++i) {
    const double begin = double(i) * length, end = double(i + 1) * length;
    Covered one = {std::min(uint64_t(begin), from - 1), {}};
    for (uint64_t j = one.first; j < from && double(j) < end - 1e-9; ++j) {
      const double overlap = std::min(end, double(j + 1)) - std::max(begin, double(j));
      one.weights.push_back(float(std::max(overlap, 0.0) / length));
    }
    all.push_back(std::move(one));
  }
  return all;
}

class ResizeOp : public TransformOp {
 public:
  ResizeOp(uint64_t height, uint64_t width) : height_(height), width_(width) {}
  std::string loss() const override { return "resize averages pixels"; }
  Shape out_row(const Shape& row) const override {
    check_is_frame("resize", row);
    Shape shape = row;
    shape[row.size() - 2] = height_;
    shape.back() = width_;
    return shape;
  }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic&) const override {
    const uint64_t h = in.row[in.row.size() - 2], w = in.row.back();
    const std::vector<Covered> rows = cover(h, height_), columns = cover(w, width_);
    const float* from = in.at(out.first);
    float* to = out.values.data();
    for (uint64_t i = 0; i < out.values.size() / (height_ * width_); ++i, from += h * w)
      for (const Covered& row : rows)
        for (const Covered& column : columns) {
          double sum = 0;
          for (uint64_t y = 0; y < row.weights.size(); ++y)
            for (uint64_t x = 0; x < column.weights.size(); ++x)
              sum += double(row.weights[y] * column.weights[x]) *
                     double(from[(row.first + y) * w + column.first + x]);
          *to++ = float(sum);
        }
  }

 private:
  uint64_t height_, width_;
};

}  // namespace

std::unique_ptr<TransformOp> make_frame_op(const std::string& name, const Json& json) {
  if (name == "crop") {
    const OpSettings settings(name, json, {"y", "x", "height", "width"});
    return std::make_unique<CropOp>(settings.count("y", 0), settings.count("x", 0),
                                    settings.count("height"), settings.count("width"));
  }
  if (name == "resize") {
    const OpSettings settings(name, json, {"height", "width"});
    const uint64_t height = settings.count("height"), width = settings.count("width");
    if (height == 0 || width == 0) throw Error("transform resize: to {} x {}", height, width);
    return std::make_unique<ResizeOp>(height, width);
  }
  return nullptr;
}

}  // namespace lacuna
