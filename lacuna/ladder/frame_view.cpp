#include "lacuna/ladder/frame_view.h"

#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/recording/transforms/transform_op.h"

namespace lacuna {
namespace {

uint64_t pixels_of(const Shape& frame) {
  uint64_t product = 1;
  for (const uint64_t extent : frame) product *= extent;
  return product;
}

std::vector<std::unique_ptr<TransformOp>> make_ops(const Json& ops) {
  std::vector<std::unique_ptr<TransformOp>> made;
  for (const Json& op : ops)
    made.push_back(op.is_string() ? make_transform_op(op.get<std::string>(), Json::object())
                                  : make_transform_op(op.begin().key(), op.begin().value()));
  return made;
}

// Several crops are one. None where an op is something else.
std::optional<FrameView::Crop> one_crop(const Json& ops, const Shape& frame) {
  if (frame.size() != 2) return {};
  FrameView::Crop all = {0, 0, frame[0], frame[1]};
  for (const Json& op : ops) {
    if (!op.is_object() || op.begin().key() != "crop") return {};
    const Json& settings = op.begin().value();
    all = {all.y + settings.value("y", uint64_t(0)), all.x + settings.value("x", uint64_t(0)),
           settings.at("height").get<uint64_t>(), settings.at("width").get<uint64_t>()};
  }
  return all;
}

// Memory of this thread, used again; the holder below has its own.
std::byte* view_bytes(uint64_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer.data();
}

class ViewedFrames : public FrameHolder {
 public:
  ViewedFrames(std::unique_ptr<FrameHolder> frames, const Json& ops, Shape from, uint64_t pixels,
               DType held, std::optional<FrameView::Crop> crop)
      : frames_(std::move(frames)),
        ops_(make_ops(ops)),
        from_(std::move(from)),
        from_pixels_(pixels_of(from_)),
        pixels_(pixels),
        held_(held),
        crop_(crop) {}

  void read(uint32_t segment, uint64_t t, uint64_t lags, uint64_t step, const FrameCast& cast,
            std::byte* out) const override {
    const FrameCast as_held = {held_, held_, from_pixels_};
    const uint64_t whole = lags * as_held.from_bytes(), viewed = lags * cast.from_bytes();
    std::byte* const buffer = view_bytes(whole + viewed);
    frames_->read(segment, t, lags, step, as_held, buffer);
    std::byte* const to = cast.is_copy() ? out : buffer + whole;
    look(buffer, lags, to);
    if (!cast.is_copy()) cast(to, lags, out);
  }
  void read_rows(uint32_t segment, uint64_t first, uint64_t count, std::byte* out) const override {
    std::byte* const buffer = view_bytes(count * from_pixels_ * item_size(held_));
    frames_->read_rows(segment, first, count, buffer);
    look(buffer, count, out);
  }
  uint64_t held_bytes() const override { return frames_->held_bytes(); }
  uint64_t disk_bytes() const override { return frames_->disk_bytes(); }

 private:
  void look(const std::byte* frames, uint64_t count, std::byte* out) const {
    if (crop_)
      cut(frames, count, out);
    else
      apply(frames, count, out);
  }
  void cut(const std::byte* frames, uint64_t count, std::byte* out) const {
    const uint64_t item = item_size(held_), line = from_[1] * item, wide = crop_->width * item;
    for (uint64_t i = 0; i < count; ++i, frames += from_[0] * line)
      for (uint64_t y = 0; y < crop_->height; ++y, out += wide)
        std::memcpy(out, frames + (crop_->y + y) * line + crop_->x * item, wide);
  }
  void apply(const std::byte* frames, uint64_t count, std::byte* out) const {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(frames);
    RowBlock in;
    in.resize(0, count, from_);
    in.values.assign(bytes, bytes + count * from_pixels_);
    for (const auto& op : ops_) {
      RowBlock next;
      next.resize(0, count, op->out_row(in.row));
      op->apply(in, next, {});
      in = std::move(next);
    }
    LACUNA_ASSERT(in.values.size() == count * pixels_);
    for (size_t i = 0; i < in.values.size(); ++i) out[i] = std::byte(uint8_t(in.values[i]));
  }

  std::unique_ptr<FrameHolder> frames_;
  std::vector<std::unique_ptr<TransformOp>> ops_;
  Shape from_;
  uint64_t from_pixels_, pixels_;
  DType held_;
  std::optional<FrameView::Crop> crop_;
};

}  // namespace

FrameView::FrameView(const Json& ops, const Shape& frame, DType held)
    : ops_(ops), from_(frame), shape_(frame), held_(held) {
  bool is_bytes = true;
  for (const auto& op : make_ops(ops)) {
    if (op->kind() != OpKind::pointwise)
      throw Error("frames are to be made of {} when they are read, which needs more than one frame",
                  ops.dump());
    shape_ = op->out_row(shape_);
    is_bytes = op->keeps_bytes() &&
               op->casts_to().value_or(is_bytes ? DType::u8 : DType::f32) == DType::u8;
  }
  crop_ = one_crop(ops, frame);
  if (!is_bytes)
    throw Error("frames made of {} are not bytes; end the ops with {{cast: {{dtype: u8}}}}",
                ops.dump());
  if (!ops.empty() && held != DType::u8 && !crop_)
    throw Error(
        "frames lie there as {}, and {} of bytes cannot be had from them exactly; take a rung of "
        "bytes, such as disk:u8, or `lacuna transform` the recording before",
        name(held), ops.dump());
}

uint64_t FrameView::pixels() const { return pixels_of(shape_); }

std::unique_ptr<FrameHolder> FrameView::of(std::unique_ptr<FrameHolder> frames) const {
  return std::make_unique<ViewedFrames>(std::move(frames), ops_, from_, pixels(), held_, crop_);
}

}  // namespace lacuna
