// Ops on frames that are applied when a window is read: crop, and on rungs of bytes whatever needs
// one frame alone and gives bytes (resize with a cast). Frames lie as they were recorded, so that
// trainings with other crops share one copy and one store.
#pragma once

#include <memory>
#include <optional>

#include "lacuna/core/array.h"
#include "lacuna/core/text/json.h"
#include "lacuna/ladder/frame_holder.h"

namespace lacuna {

class FrameView {
 public:
  // ops: settings, as in recording/transforms/transform_op.h; none: frames as they are. frame: the
  // shape of those that lie there. Throws Error for an op that needs more than one frame, for a
  // result that is not bytes, and for ops on floats (held) that are no crops.
  FrameView(const Json& ops, const Shape& frame, DType held);

  const Shape& frame_shape() const { return shape_; }
  uint64_t pixels() const;  // of a frame
  bool is_whole() const { return ops_.empty(); }
  // The same frames through this view.
  std::unique_ptr<FrameHolder> of(std::unique_ptr<FrameHolder> frames) const;

  struct Crop {
    uint64_t y, x, height, width;
  };

 private:
  Json ops_;
  Shape from_, shape_;  // [Y, X]
  DType held_;
  std::optional<Crop> crop_;  // where they are crops alone
};

}  // namespace lacuna
