#include "lacuna/core/error.h"
#include "lacuna/ladder/frame_holder.h"

namespace lacuna {

std::unique_ptr<FrameHolder> hold_chunks(const std::vector<fs::path>&, bool, Progress&) {
  throw Error("chunks are not read yet");
}
uint64_t chunk_bytes_to_load(const std::vector<fs::path>&) { return 0; }

}  // namespace lacuna
