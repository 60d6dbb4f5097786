#include "lacuna/train/recording/unit_places.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ladder/frame_holder.h"

namespace lacuna {
namespace {

constexpr uint64_t kStretches = 48, kLength = 192;
constexpr uint64_t kStretchBytes = 16 << 20;  // of large frames, fewer rows at a time
constexpr uint64_t kMostLags = 12, kMostSide = 32;
constexpr double kFieldWidth = 1.5;  // pixels of an averaged frame: the deviation of a field

uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Rows are averaged `rows` at a time and pixels in blocks of [block_y, block_x]; what is left over
// at the lower and right borders is dropped.
struct Averages {
  uint64_t lags, rows, height, width, block_y, block_x;

  Averages(uint64_t lags, const Shape& frame)
      : lags(lags),
        rows(divide_up(lags, kMostLags)),
        height(frame.at(0)),
        width(frame.at(1)),
        block_y(divide_up(height, kMostSide)),
        block_x(divide_up(width, kMostSide)) {}

  uint64_t bin_lags() const { return divide_up(lags, rows); }
  uint64_t bins(uint64_t windows) const { return divide_up(lags + windows - 1, rows); }
  uint64_t small_height() const { return height / block_y; }
  uint64_t small_width() const { return width / block_x; }
  uint64_t small() const { return small_height() * small_width(); }
};

// Sums of blocks times `scale`: [height, width] -> [small_height, small_width].
void average_blocks(const Averages& of, const float* frame, float scale, float* out) {
  std::fill(out, out + of.small(), 0.0f);
  for (uint64_t y = 0; y < of.small_height() * of.block_y; ++y) {
    float* const to = out + y / of.block_y * of.small_width();
    const float* const from = frame + y * of.width;
    for (uint64_t x = 0; x < of.small_width(); ++x)
      for (uint64_t i = 0; i < of.block_x; ++i) to[x] += from[x * of.block_x + i] * scale;
  }
}

// Frames as a rung reads them, as normalised floats.
void to_floats(const std::byte* frames, DType dtype, uint64_t pixels, float* out) {
  if (dtype == DType::bf16) {
    const auto* x = reinterpret_cast<const BFloat16*>(frames);
    for (uint64_t i = 0; i < pixels; ++i) out[i] = float(x[i]);
  } else {
    FrameCast{dtype, DType::f32, pixels}(frames, 1, reinterpret_cast<std::byte*>(out));
  }
}

// frames: [lags + windows - 1, height, width], newest first -> [bins, small], the same way.
void average_frames(const Averages& of, const std::byte* frames, DType dtype, uint64_t count,
                    float* out) {
  const uint64_t pixels = of.height * of.width;
  std::vector<float> frame(pixels), sum(pixels);
  for (uint64_t first = 0; first < count; first += of.rows, out += of.small()) {
    const uint64_t last = std::min(first + of.rows, count);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (uint64_t row = first; row < last; ++row) {
      to_floats(frames + row * pixels * item_size(dtype), dtype, pixels, frame.data());
      for (uint64_t i = 0; i < pixels; ++i) sum[i] += frame[i];
    }
    average_blocks(of, sum.data(), 1.0f / float((last - first) * of.block_y * of.block_x), out);
  }
}

// What is known of all stretches, one after another, each newest first. Bins without counts (a
// stretch's oldest, which only lags reach) are 0 in `counts`.
struct Bins {
  at::Tensor frames;  // [bins, small]
  at::Tensor counts;  // [bins, units] less their mean, summed over a bin; 0 where not valid
};

class BinReader {
 public:
  BinReader(const Frames& frames, const WindowFields& fields, const Windows& training,
            std::span<const double> mean, const Averages& averages)
      : frames_(frames), fields_(fields), training_(training), mean_(mean), averages_(averages) {}

  Bins read(const std::vector<WindowStretch>& stretches) const {
    std::vector<uint64_t> first = {0};
    for (const WindowStretch& stretch : stretches)
      first.push_back(first.back() + averages_.bins(stretch.count));
    Bins bins = {at::empty({int64_t(first.back()), int64_t(averages_.small())}, at::kFloat),
                 at::zeros({int64_t(first.back()), int64_t(mean_.size())}, at::kFloat)};
    float* const frames = bins.frames.mutable_data_ptr<float>();
    float* const counts = bins.counts.mutable_data_ptr<float>();
    parallel_for(stretches.size(), 0, [&](uint64_t i) {
      read_frames(stretches[i], frames + first[i] * averages_.small());
      read_counts(stretches[i], counts + first[i] * mean_.size());
    });
    return bins;
  }

 private:
  void read_frames(const WindowStretch& stretch, float* out) const {
    const WindowSettings& settings = training_.settings();
    const Window newest = training_.at(stretch.first + stretch.count - 1);
    // A movie that will lie on the GPU is read as bytes.
    const DType dtype = is_resident(frames_.rung()) ? DType::u8 : frames_.dtype();
    const uint64_t rows = averages_.lags + stretch.count - 1;
    const Scratch<std::byte> bytes(rows * averages_.height * averages_.width * item_size(dtype));
    frames_.read(newest.session, newest.segment,
                 newest_row(newest, settings.stimulus, settings.step), rows, settings.step,
                 bytes.get());
    average_frames(averages_, bytes.get(), dtype, rows, out);
  }

  void read_counts(const WindowStretch& stretch, float* out) const {
    WindowBatch batch;
    batch.windows.resize(stretch.count);
    std::iota(batch.windows.rbegin(), batch.windows.rend(), stretch.first);  // newest first
    fields_.fill(batch);
    const SessionPart& part = batch.parts.at(0);
    LACUNA_ASSERT(part.units == mean_.size());
    for (size_t i = 0; i < part.counts.size(); ++i) {
      const size_t unit = i % part.units, bin = i / part.units / averages_.rows;
      if (part.validity[i]) out[bin * part.units + unit] += part.counts[i] - float(mean_[unit]);
    }
  }

  const Frames& frames_;
  const WindowFields& fields_;
  const Windows& training_;
  std::span<const double> mean_;
  const Averages& averages_;
};

// Of each unit and pixel, how much of the sharpened covariance lies around: [units, small].
at::Tensor energy_of(const Bins& bins, const Averages& averages) {
  const int64_t all = bins.frames.size(0), units = bins.counts.size(1);
  const auto height = int64_t(averages.small_height()), width = int64_t(averages.small_width());
  const auto kernel = at::tensor({0, -1, 0, -1, 4, -1, 0, -1, 0}, at::kFloat).view({1, 1, 3, 3});
  const bool is_small = height < 3 || width < 3;
  at::Tensor energy = at::zeros({units, 1, height, width}, at::kFloat);
  for (int64_t lag = 0; lag < int64_t(averages.bin_lags()); ++lag) {
    const auto counts = bins.counts.narrow(0, 0, all - lag);
    const auto covariance = counts.t().mm(bins.frames.narrow(0, lag, all - lag));
    const auto map = covariance.view({units, 1, height, width});
    // At the borders there is no Laplacian: frames end there.
    energy += is_small ? map.square()
                       : at::constant_pad_nd(at::conv2d(map, kernel), {1, 1, 1, 1}).square();
  }
  const auto away = at::arange(-4, 5, at::kFloat) / kFieldWidth;
  const auto bell = (-0.5 * away.square()).exp();
  return at::conv2d(energy, at::outer(bell, bell).view({1, 1, 9, 9}), {}, 1, 4).flatten(1);
}

// The middle of block `i`, where a frame of `size` pixels reaches from -1 to 1.
float middle_of(int64_t i, uint64_t block, uint64_t size) {
  if (size == 1) return 0;
  return float((double(i) + 0.5) * double(block) - 0.5) * 2 / float(size - 1) - 1;
}

}  // namespace

std::vector<WindowStretch> spread_stretches(const Windows& windows, uint32_t session, uint64_t most,
                                            uint64_t length) {
  const auto [first, last] = windows.of_session(session);
  const bool takes_all = last - first <= most * length;
  std::vector<WindowStretch> stretches;
  uint64_t begin = 0, taken = 0;  // of the run; stretches considered
  for (const WindowRun& run : windows.runs()) {
    const uint64_t end = begin + run.size();
    uint64_t free = begin;  // of the run, what no stretch has yet
    const auto take = [&](uint64_t from) {
      const WindowStretch stretch = {from, std::min(length, end - from)};
      if (stretch.count > 0) stretches.push_back(stretch);
      free = from + stretch.count;
    };
    while (run.session == session && takes_all && free < end) take(free);
    for (; run.session == session && !takes_all && taken < most; ++taken) {
      const uint64_t wanted = first + (last - first) * taken / most;
      if (wanted >= end) break;
      // Not the end of a run alone: as much of it as there is.
      const uint64_t latest = end - std::min(length, end - begin);
      take(std::max(std::min(wanted, latest), free));
    }
    begin = end;
  }
  return stretches;
}

std::vector<float> find_places(const Frames& frames, const WindowFields& fields,
                               const Windows& training, uint32_t session,
                               std::span<const double> mean_counts) {
  const Averages averages(training.settings().stimulus.lags, frames.frame_shape());
  const uint64_t fitting = kStretchBytes / std::max<uint64_t>(frames.frame_bytes(), 1);
  const uint64_t length = std::min(kLength, std::max(averages.lags, fitting));
  const BinReader reader(frames, fields, training, mean_counts, averages);
  const Bins bins = reader.read(spread_stretches(training, session, kStretches, length));
  const at::Tensor best = energy_of(bins, averages).argmax(1);  // [units]
  std::vector<float> places;
  for (size_t u = 0; u < mean_counts.size(); ++u) {
    const auto pixel = best[int64_t(u)].item<int64_t>(), width = int64_t(averages.small_width());
    places.push_back(middle_of(pixel / width, averages.block_y, averages.height));
    places.push_back(middle_of(pixel % width, averages.block_x, averages.width));
  }
  return places;
}

}  // namespace lacuna
