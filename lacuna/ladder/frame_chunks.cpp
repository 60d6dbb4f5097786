#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/ladder/frame_holder.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/ladder/host_copy.h"
#include "lacuna/store/zarr/read_at.h"
#include "lacuna/store/zarr/zarr_chunks.h"

namespace lacuna {
namespace {

// The packed bytes of a session's shards, one after another.
struct ShardPlan {
  struct Shard {
    fs::path file;
    uint64_t begin, bytes;
  };
  std::vector<std::vector<Shard>> of_segment;
  std::vector<std::pair<const Shard*, uint64_t>> pieces;  // shard, offset in it
  HostCopyPlan copy;

  ShardPlan(const StoredSession& session, const std::vector<ZarrChunks>& segments) {
    constexpr uint64_t kPiece = uint64_t(64) << 20;
    copy.words = "chunks of session " + session.name;
    copy.key = hash64("chunks " + hex(session.xxh3));
    uint64_t bytes = 0;
    for (const ZarrChunks& chunks : segments) {
      std::vector<Shard>& shards = of_segment.emplace_back();
      for (uint32_t i = 0; i < chunks.shards(); ++i) {
        shards.push_back({chunks.shard_file(i), bytes, chunks.shard_bytes(i)});
        bytes += shards.back().bytes;
      }
    }
    for (const auto& shards : of_segment)
      for (const Shard& shard : shards)
        for (uint64_t at = 0; at < shard.bytes; at += kPiece) {
          pieces.emplace_back(&shard, at);
          copy.cuts.push_back(shard.begin + std::min(at + kPiece, shard.bytes));
        }
  }
};

class ChunkFrames : public FrameHolder {
 public:
  ChunkFrames(const StoredSession& session, bool in_memory, Progress& progress, uint64_t done) {
    for (const fs::path& folder : session.chunks) segments_.emplace_back(folder);
    for (size_t i = 0; i < segments_.size(); ++i)
      if (segments_[i].shape() != session.fields[i].shape ||
          segments_[i].dtype() != session.fields[i].dtype)
        throw Error("{}: not the array that the store's manifest tells of",
                    session.chunks[i].string());
    if (!in_memory) return;
    plan_.emplace(session, segments_);
    copy_ = HostCopy::share(
        plan_->copy,
        [&](uint64_t piece, std::span<std::byte> out) {
          const auto [shard, at] = plan_->pieces[piece];
          OpenFile(shard->file).read(at, out);
        },
        progress, done);
  }

  void read(uint32_t segment, uint64_t t, uint64_t lags, uint64_t step, const FrameCast& cast,
            std::byte* out) const override {
    const uint64_t rows = (lags - 1) * step + 1, bytes = segments_[segment].row_bytes();
    thread_local std::vector<std::byte> buffer;
    if (buffer.size() < rows * bytes) buffer.resize(rows * bytes);
    read_rows(segment, t - (rows - 1), rows, buffer.data());
    for (uint64_t lag = 0; lag < lags; ++lag)
      cast(buffer.data() + (rows - 1 - lag * step) * bytes, 1, out + lag * cast.to_bytes());
  }

  void read_rows(uint32_t segment, uint64_t first, uint64_t count, std::byte* out) const override {
    thread_local ZarrChunks::Scratch scratch;
    const ZarrChunks& chunks = segments_[segment];
    const std::span<std::byte> rows(out, count * chunks.row_bytes());
    if (!copy_) {
      chunks.read_rows(first, first + count, rows, scratch);
      return;
    }
    const auto& shards = plan_->of_segment[segment];
    chunks.read_rows(first, first + count, rows, scratch,
                     [&](uint32_t shard, uint64_t offset, uint64_t bytes) {
                       return copy_->bytes().subspan(shards[shard].begin + offset, bytes);
                     });
  }

  uint64_t held_bytes() const override { return copy_ ? copy_->bytes().size() : 0; }
  uint64_t disk_bytes() const override {
    if (copy_) return 0;
    uint64_t bytes = 0;
    for (const ZarrChunks& chunks : segments_)
      for (uint32_t i = 0; i < chunks.shards(); ++i) bytes += chunks.shard_bytes(i);
    return bytes;
  }

 private:
  std::vector<ZarrChunks> segments_;
  std::optional<ShardPlan> plan_;
  std::shared_ptr<const HostCopy> copy_;
};

}  // namespace

std::unique_ptr<FrameHolder> hold_chunks(const StoredSession& session, bool in_memory,
                                         Progress& progress, uint64_t done) {
  return std::make_unique<ChunkFrames>(session, in_memory, progress, done);
}

ChunkBytes chunk_bytes(const StoredSession& session) {
  std::vector<ZarrChunks> segments;
  for (const fs::path& folder : session.chunks) segments.emplace_back(folder);
  const ShardPlan plan(session, segments);
  const uint64_t all = plan.copy.cuts.back();
  return {all, HostCopy::is_held(plan.copy) ? 0 : all};
}

}  // namespace lacuna
