#include "lacuna/plan/measure_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/ladder/recording_source.h"
#include "lacuna/load/session_order.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/recording_writer.h"

namespace lacuna {
namespace {

using LadderClock = std::chrono::steady_clock;
using WindowLoader = Loader<RecordingSource, SessionOrder>;

double seconds_from(LadderClock::time_point begin) {
  return std::chrono::duration<double>(LadderClock::now() - begin).count();
}

// The frames of a slice in plain memory: what the bare loops read, and what batches are compared
// with.
class PlainFrames {
 public:
  PlainFrames(const Recording& recording, const std::string& field) {
    for (const Session& session : recording.sessions()) {
      auto& segments = rows_.emplace_back();
      for (const Segment& segment : session.segments) {
        const Array mapped = read_checked(segment.field(field));
        const auto* first = reinterpret_cast<const uint8_t*>(mapped.bytes().data());
        segments.emplace_back(first, first + mapped.bytes().size());
        pixels_ = segment.field(field).columns();
      }
    }
  }
  uint64_t pixels() const { return pixels_; }
  const uint8_t* frame(const Window& at, uint64_t lag, uint64_t step) const {
    return rows_[at.session][at.segment].data() + (at.t - lag * step) * pixels_;
  }

 private:
  std::vector<std::vector<std::vector<uint8_t>>> rows_;
  uint64_t pixels_ = 0;
};

// (x - 127) / 255, as somebody would write it.
void cast_plainly(const uint8_t* x, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = (float(x[i]) - 127.f) / 255.f;
}

bool is_exact(const RecordingBatch& batch, const Windows& windows, const PlainFrames& plain) {
  const uint64_t lags = windows.settings().stimulus.lags, pixels = plain.pixels();
  const uint64_t bytes = pixels * item_size(batch.stimulus_dtype);
  const std::byte* found = batch.stimulus;
  std::vector<float> numbers(pixels);
  std::vector<BFloat16> halves(pixels);
  for (const uint64_t window : batch.windows) {
    Window at = windows.at(window);
    at.t = newest_row(at, windows.settings().stimulus, windows.settings().step);
    for (uint64_t lag = 0; lag < lags; ++lag, found += bytes) {
      const uint8_t* frame = plain.frame(at, lag, windows.settings().step);
      cast_plainly(frame, pixels, numbers.data());
      const void* expected = frame;
      if (batch.stimulus_dtype == DType::f32) expected = numbers.data();
      if (batch.stimulus_dtype == DType::bf16) {
        for (uint64_t i = 0; i < pixels; ++i) halves[i] = BFloat16(numbers[i]);
        expected = halves.data();
      }
      if (std::memcmp(found, expected, bytes) != 0) return false;
    }
  }
  return true;
}

std::vector<std::string> all_rungs() {
  return {"ram:u8@device",     "ram:u8@worker",     "ram:bf16",           "ram:f32",
          "ram:chunks@device", "ram:chunks@worker", "disk:u8@device",     "disk:u8@worker",
          "disk:bf16",         "disk:f32",          "disk:chunks@device", "disk:chunks@worker",
          "tiered@device",     "tiered@worker"};
}

class RecordingBench {
 public:
  RecordingBench(const Recording& slice, const RecordingLadderSettings& settings)
      : slice_(slice),
        settings_(settings),
        windows_(slice, settings.windows),
        plain_(slice, settings.windows.stimulus.field) {
    if (windows_.size() < settings.batch)
      throw Error("a batch of {} windows needs more than the {} there are; give a smaller --batch",
                  settings.batch, windows_.size());
  }

  const Windows& windows() const { return windows_; }

  RecordingRungMeasurement measure(const std::string& name, Progress& progress) const {
    RecordingRungMeasurement row = {.name = name};
    const Rung rung = recording_rung_from_name(name);
    FramesOptions options = {.rung = rung, .field = settings_.windows.stimulus.field};
    uint64_t frames = 0;
    for (const Session& session : slice_.sessions())
      for (const Segment& segment : session.segments) frames += segment.frames;
    if (rung.place == Place::tiered) options.hot_bytes = frames * plain_.pixels() / 2;
    if (needs_store(rung)) options.store = prepare(rung, row, progress);
    give_back_freed_memory();
    const uint64_t before = own_memory();
    const auto start = LadderClock::now();
    {
      const RecordingSource source(windows_, Frames(slice_, options), {.batch = settings_.batch});
      row.held_bytes = double(source.frames().held_bytes());
      row.frame_bytes = (row.held_bytes + double(source.frames().disk_bytes())) / double(frames);
      WindowLoader loader(
          source, order(),
          {.threads = settings_.threads, .prefetch = source.prefetch(settings_.threads)});
      look_at(loader, start, row);
      time(loader, row);
      row.host_bytes = std::max(0.0, double(own_memory()) - double(before) - row.held_bytes);
    }
    if (!options.store.empty()) fs::remove_all(options.store);
    return row;
  }

  // A bare loop with the loader's threads over windows that are known before. one(window, buffer).
  template <class One>
  RecordingRungMeasurement loop(const std::string& name, uint64_t item_bytes, One one) const {
    const uint64_t lags = settings_.windows.stimulus.lags;
    const uint64_t window_bytes = lags * plain_.pixels() * item_bytes;
    std::vector<Window> all;
    const SessionOrder order = this->order();
    std::vector<uint64_t> numbers;
    for (uint64_t p = 0; p < std::min<uint64_t>(order.batches(), 64); ++p) {
      order.batch(0, p, numbers);
      if (numbers.size() < settings_.batch) break;
      for (const uint64_t number : numbers) all.push_back(windows_.at(number));
    }
    const uint64_t batches = all.size() / settings_.batch;
    std::vector<std::vector<std::byte>> buffers(
        size_t(settings_.threads), std::vector<std::byte>(settings_.batch * window_bytes));
    std::vector<double> rounds;
    for (int round = 0; round < settings_.rounds + 1; ++round) {  // the first one warms
      std::atomic<uint64_t> next = 0;
      const auto start = LadderClock::now();
      std::vector<std::thread> threads;
      for (auto& buffer : buffers)
        threads.emplace_back([&] {
          while (seconds_from(start) < settings_.seconds) {
            const uint64_t batch = next++ % batches;
            for (uint64_t b = 0; b < settings_.batch; ++b)
              one(all[batch * settings_.batch + b], buffer.data() + b * window_bytes);
          }
        });
      for (std::thread& thread : threads) thread.join();
      if (round > 0) rounds.push_back(seconds_from(start) / double(next));
    }
    RecordingRungMeasurement row = {.name = name, .is_rung = false};
    row.batch_seconds = median(std::move(rounds));
    row.windows_per_second = double(settings_.batch) / row.batch_seconds;
    row.frame_bytes = double(plain_.pixels());
    row.moved_bytes = double(window_bytes);
    row.is_exact = true;
    return row;
  }
  RecordingRungMeasurement memcpy_loop() const {
    const uint64_t lags = settings_.windows.stimulus.lags, pixels = plain_.pixels();
    return loop("memcpy loop", 1, [&, lags, pixels](const Window& at, std::byte* out) {
      for (uint64_t lag = 0; lag < lags; ++lag)
        std::memcpy(out + lag * pixels, plain_.frame(at, lag, settings_.windows.step), pixels);
    });
  }
  RecordingRungMeasurement cast_loop() const {
    const uint64_t lags = settings_.windows.stimulus.lags, pixels = plain_.pixels();
    return loop("gather and cast", 4, [&, lags, pixels](const Window& at, std::byte* out) {
      for (uint64_t lag = 0; lag < lags; ++lag)
        cast_plainly(plain_.frame(at, lag, settings_.windows.step), pixels,
                     reinterpret_cast<float*>(out) + lag * pixels);
    });
  }

 private:
  SessionOrder order() const {
    std::vector<uint64_t> first = {0};
    for (uint32_t s = 0; s < slice_.sessions().size(); ++s)
      first.push_back(std::max(first.back(), windows_.of_session(s).second));
    return SessionOrder(first, {.global_batch = settings_.batch, .seed = 1});
  }

  fs::path prepare(Rung rung, RecordingRungMeasurement& row, Progress& progress) const {
    FrameStoreSettings store;
    store.form = rung.form;
    store.field = settings_.windows.stimulus.field;
    store.compressor = settings_.compressor;
    store.rows_per_chunk = settings_.windows.stimulus.lags;
    const auto start = LadderClock::now();
    const fs::path path = settings_.folder / "frames";
    if (prepare_frames(slice_, store, path, {}, progress).is_stopped) throw Stopped();
    row.prepare_seconds = seconds_from(start);
    return path;
  }

  BatchRef<RecordingBatch> next(WindowLoader& loader) const {
    throw_if_stopped();
    while (true)
      if (auto batch = loader.next(); batch && batch->size() == settings_.batch) return batch;
  }

  // The first batches bring pages and buffers into being, and are compared.
  void look_at(WindowLoader& loader, LadderClock::time_point start,
               RecordingRungMeasurement& row) const {
    row.is_exact = true;
    for (int i = 0; i < 3; ++i) {
      const auto batch = next(loader);
      if (i == 0) row.first_seconds = seconds_from(start);
      row.is_exact &= is_exact(*batch, windows_, plain_);
      row.moved_bytes = double(plain_.pixels() * item_size(batch->stimulus_dtype) *
                               settings_.windows.stimulus.lags);
    }
    const auto warm = LadderClock::now();
    for (uint64_t i = 0; i < loader.order().batches() && seconds_from(warm) < 30; ++i) next(loader);
  }

  void time(WindowLoader& loader, RecordingRungMeasurement& row) const {
    std::vector<double> rounds;
    for (int round = 0; round < settings_.rounds; ++round) {
      const auto start = LadderClock::now();
      uint64_t count = 0;
      double passed = 0;
      while (passed < settings_.seconds) {
        next(loader);
        ++count;
        passed = seconds_from(start);
      }
      rounds.push_back(passed / double(count));
    }
    row.batch_seconds = median(std::move(rounds));
    row.windows_per_second = double(settings_.batch) / row.batch_seconds;
  }

  const Recording& slice_;
  const RecordingLadderSettings& settings_;
  Windows windows_;
  PlainFrames plain_;
};

}  // namespace

const RecordingRungMeasurement* RecordingLadderMeasurement::find(const std::string& name) const {
  const auto found = std::ranges::find(rows, name, &RecordingRungMeasurement::name);
  return found == rows.end() ? nullptr : &*found;
}

Recording write_recording_slice(const Recording& recording, const fs::path& out, uint64_t frames) {
  uint64_t all = 0;
  for (const Session& session : recording.sessions()) all += session.frames();
  RecordingWriter writer(out, {});
  for (const Session& session : recording.sessions()) {
    writer.begin_session({.name = session.name,
                          .subject = session.subject,
                          .rate = session.rate,
                          .units = session.units});
    for (const Segment& segment : session.segments) {
      writer.begin_segment(segment.name);
      const double share = double(frames) / double(std::max<uint64_t>(all, 1));
      const uint64_t rows = std::min(
          segment.frames, std::max<uint64_t>(500, uint64_t(double(segment.frames) * share)));
      for (const Field& field : segment.fields) {
        throw_if_stopped();
        writer.begin_field({.name = field.name,
                            .role = field.role,
                            .dtype = field.dtype,
                            .row_shape = {field.shape.begin() + 1, field.shape.end()},
                            .packed = field.packed,
                            .recorded_as = field.recorded_as,
                            .rows = rows});
        const Array mapped = field.map();
        CheckedRows(field).check_mapped(0, rows, mapped.bytes().data());
        writer.append(mapped.bytes().first(rows * field.row_bytes()));
        writer.end_field();
      }
    }
  }
  return writer.commit({{"command", "lacuna bench ladder"}});
}

RecordingLadderMeasurement measure_recording(const Recording& slice,
                                             const RecordingLadderSettings& settings,
                                             const RecordingRungMeasured& measured,
                                             Progress& progress) {
  const RecordingBench bench(slice, settings);
  RecordingLadderMeasurement ladder;
  ladder.windows = bench.windows().size();
  for (const Session& session : slice.sessions()) ladder.frames += session.frames();
  ladder.batch = settings.batch;
  ladder.threads = settings.threads;
  const auto add = [&](RecordingRungMeasurement row) {
    throw_if_stopped();
    ladder.rows.push_back(std::move(row));
    if (measured) measured(ladder.rows.back());
  };
  add(bench.memcpy_loop());
  add(bench.cast_loop());
  for (const std::string& rung : settings.rungs.empty() ? all_rungs() : settings.rungs) {
    if (is_resident(recording_rung_from_name(rung)))
      throw Error("rung device:resident is measured on a GPU, with training (--train)");
    add(bench.measure(rung, progress));
  }
  return ladder;
}

}  // namespace lacuna
