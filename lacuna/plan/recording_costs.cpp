#include "lacuna/plan/recording_costs.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/ladder/chunk_sample.h"
#include "lacuna/ladder/frames.h"
#include "lacuna/ladder/window_memory.h"
#include "lacuna/ops/cast/pixels.h"

namespace lacuna {
namespace {

using CostClock = std::chrono::steady_clock;

double since(CostClock::time_point begin) {
  return std::chrono::duration<double>(CostClock::now() - begin).count();
}

// Bytes a second that `threads` do together: one(thread) returns the bytes it went through.
template <class One>
double rate_of(int threads, double seconds, One one) {
  std::vector<double> bytes(size_t(threads), 0.0);
  std::vector<std::thread> all;
  const auto begin = CostClock::now();
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      while (since(begin) < seconds) bytes[size_t(i)] += one(i);
    });
  for (std::thread& thread : all) thread.join();
  double sum = 0;
  for (const double some : bytes) sum += some;
  return sum / since(begin);
}

// The largest segment whose frames are there.
const Field* largest_field(const Recording& recording, const std::string& name, uint32_t& session,
                           uint32_t& segment) {
  const Field* best = nullptr;
  for (uint32_t s = 0; s < recording.sessions().size(); ++s)
    for (uint32_t g = 0; g < recording.sessions()[s].segments.size(); ++g) {
      const Field* field = recording.sessions()[s].segments[g].find(name);
      if (!field || (best && best->rows() >= field->rows())) continue;
      best = field;
      session = s;
      segment = g;
    }
  if (!best) throw Error("{} has no field '{}'", recording.path().string(), name);
  return best;
}

}  // namespace

uint64_t RecordingSizes::frames() const {
  uint64_t all = 0;
  for (const uint64_t some : session_frames) all += some;
  return all;
}

RecordingSizes RecordingSizes::of(const Recording& recording, const std::string& field,
                                  uint64_t lags) {
  RecordingSizes sizes;
  sizes.lags = lags;
  for (const Session& session : recording.sessions()) {
    uint64_t frames = 0, behaviour = 0;
    for (const Segment& segment : session.segments)
      for (const Field& one : segment.fields) {
        if (one.name != field) {
          sizes.field_bytes += one.bytes();
          if (one.role == FieldRole::behaviour) behaviour = std::max(behaviour, one.columns());
          continue;
        }
        frames += one.rows();
        sizes.pixels = one.columns();
        sizes.frame.assign(one.shape.begin() + 1, one.shape.end());
        sizes.is_u8 = sizes.is_u8 && one.dtype == DType::u8;
      }
    sizes.session_frames.push_back(frames);
    const uint64_t units = session.units.size();
    sizes.row_bytes = std::max(sizes.row_bytes, (2 * units + behaviour) * sizeof(float));
    sizes.evaluated_bytes =
        std::max(sizes.evaluated_bytes, frames / 5 * WindowMemory::evaluated_window(units));
  }
  sizes.windows = sizes.frames();
  if (sizes.windows == 0)
    throw Error("{} has no frames in a field '{}'", recording.path().string(), field);
  return sizes;
}

RecordingCosts measure_recording_costs(const Recording& recording, const std::string& name,
                                       uint64_t lags, int threads, double disk_read) {
  const auto begin = CostClock::now();
  uint32_t session = 0, segment = 0;
  const Field& field = *largest_field(recording, name, session, segment);
  const uint64_t bytes = field.row_bytes();
  const uint64_t rows =
      std::min<uint64_t>(field.rows(), std::max<uint64_t>(lags, (64 << 20) / bytes));
  lags = std::min(lags, rows);
  FramesOptions options = {.rung = field.dtype == DType::u8
                                       ? Rung{Place::disk, Form::u8, Place::device}
                                       : Rung{Place::disk, Form::f32}};
  options.field = name;
  options.sessions = {recording.sessions()[session].name};
  const Frames frames(recording, options);
  std::vector<std::byte> movie(rows * bytes);
  frames.read_rows(session, segment, 0, rows, movie.data());  // warm from here on

  RecordingCosts costs;
  costs.threads = threads;
  constexpr double kSome = 0.12;    // seconds a step
  constexpr uint64_t kBuffer = 64;  // windows
  std::vector<std::vector<std::byte>> buffers(size_t(threads),
                                              std::vector<std::byte>(kBuffer * lags * bytes * 4));
  std::vector<Random> random;
  for (int i = 0; i < threads; ++i) random.emplace_back(1, uint64_t(i));
  const auto draw = [&](int i) { return lags - 1 + random[size_t(i)].below(rows - lags + 1); };
  costs.copy = rate_of(threads, kSome, [&](int i) {
    for (uint64_t b = 0; b < kBuffer; ++b) {
      const uint64_t t = draw(i);
      for (uint64_t lag = 0; lag < lags; ++lag)
        std::memcpy(buffers[size_t(i)].data() + (b * lags + lag) * bytes,
                    movie.data() + (t - lag) * bytes, bytes);
    }
    return double(kBuffer * lags * bytes);
  });
  costs.read = rate_of(threads, kSome, [&](int i) {
    for (uint64_t b = 0; b < kBuffer; ++b)
      frames.read(session, segment, draw(i), lags, 1, buffers[size_t(i)].data() + b * lags * bytes);
    return double(kBuffer * lags * bytes);
  });
  costs.cast = rate_of(threads, kSome, [&](int i) {
    for (uint64_t b = 0; b < kBuffer; ++b) {
      const uint64_t t = draw(i);
      for (uint64_t lag = 0; lag < lags; ++lag)
        normalise_pixels(
            reinterpret_cast<const uint8_t*>(movie.data() + (t - lag) * bytes), bytes,
            reinterpret_cast<float*>(buffers[size_t(i)].data()) + (b * lags + lag) * bytes);
    }
    return double(kBuffer * lags * bytes);
  });
  if (field.dtype == DType::u8) {
    // By all threads at once, as the loader does it: cores may share more than they seem to.
    std::vector<std::future<ChunkSample>> samples;
    for (int i = 0; i < threads; ++i)
      samples.push_back(std::async(std::launch::async, [&] {
        return sample_chunks(recording,
                             {.form = Form::chunks, .field = name, .rows_per_chunk = lags});
      }));
    for (auto& sample : samples) {
      const ChunkSample chunks = sample.get();
      costs.ratio = chunks.ratio();
      costs.unpack += chunks.unpack_rate;
      costs.pack += chunks.pack_rate;
    }
  }
  // A window is a request of some 100 KB, which disks give at about a third of their rate.
  costs.cold_read = disk_read / 3;
  costs.seconds = since(begin);
  return costs;
}

Json to_json(const RecordingCosts& costs) {
  return {{"copy_bytes_per_s", costs.copy},
          {"read_bytes_per_s", costs.read},
          {"cast_pixels_per_s", costs.cast},
          {"unpack_bytes_per_s", costs.unpack},
          {"pack_bytes_per_s", costs.pack},
          {"compression_ratio", costs.ratio},
          {"cold_read_bytes_per_s", costs.cold_read},
          {"threads", costs.threads},
          {"seconds", costs.seconds}};
}

}  // namespace lacuna
