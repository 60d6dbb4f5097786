#include "lacuna/ladder/chunk_sample.h"

#include <chrono>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/ladder/frame_holder.h"
#include "lacuna/store/zarr/zarr_codecs.h"

namespace lacuna {
namespace {

struct SampledSegment {
  const Field* field;
  uint64_t first;  // row of all segments together
};

std::vector<SampledSegment> sampled_segments(const Recording& recording, const std::string& field,
                                             uint64_t& rows) {
  std::vector<SampledSegment> all;
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments) {
      if (!segment.find(field)) continue;
      const Field& frames = segment.field(field);
      if (frames.dtype != DType::u8)
        throw Error("field '{}' of {}/{} is {}; chunks hold u8", field, session.name, segment.name,
                    name(frames.dtype));
      all.push_back({&frames, rows});
      rows += frames.rows();
    }
  if (rows == 0) throw Error("{} has no frames", recording.path().string());
  return all;
}

}  // namespace

ChunkSample sample_chunks(const Recording& recording, const FrameStoreSettings& settings,
                          const ChunkSampleSettings& sample) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  uint64_t rows = 0;
  const auto segments = sampled_segments(recording, settings.field, rows);
  Random random(1, rows);  // the same chunks every time
  ChunkSample result;
  double packing = 0, unpacking = 0;
  const auto begin = Clock::now();
  std::vector<std::byte> packed, back, step;
  const ZarrCodecs codecs = {
      .is_big_endian = false, .axes = {}, .packing = {PackedCodec::blosc, PackedCodec::crc32c}};
  for (uint64_t i = 0; i < sample.chunks && (i < 4 || since(begin) < sample.seconds); ++i) {
    const uint64_t row = random.below(rows);
    size_t s = segments.size() - 1;
    while (segments[s].first > row) --s;
    const Field& field = *segments[s].field;
    const uint64_t count = std::min(settings.rows_per_chunk, field.rows());
    const uint64_t first = std::min(row - segments[s].first, field.rows() - count);
    std::vector<std::byte> frames(count * field.row_bytes());
    hold_on_disk({field})->read_rows(0, first, count, frames.data());
    const auto pack = Clock::now();
    encode_chunk(frames, settings.compressor, 5, 1, packed);
    packing += since(pack);
    back.resize(frames.size());
    const auto unpack = Clock::now();
    decode_chunk(codecs, packed, {frames.size()}, 1, back, step);
    unpacking += since(unpack);
    LACUNA_ASSERT(back == frames);
    result.raw_bytes += frames.size();
    result.packed_bytes += packed.size();
  }
  result.pack_rate = double(result.raw_bytes) / std::max(packing, 1e-9);
  result.unpack_rate = double(result.raw_bytes) / std::max(unpacking, 1e-9);
  return result;
}

}  // namespace lacuna
