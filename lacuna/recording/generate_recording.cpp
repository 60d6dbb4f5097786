#include "lacuna/recording/generate_recording.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/recording/generate_gaze.h"
#include "lacuna/recording/generate_image.h"
#include "lacuna/recording/generate_units.h"
#include "lacuna/recording/recording_writer.h"

namespace lacuna {
namespace {

constexpr uint32_t kImageSize = 512, kImages = 4;
constexpr uint64_t kBehaviours = 42, kTents = 38, kRowsAtOnce = 1024, kCalibrationRows = 6000;
constexpr double kPixelsADegree = 40;
constexpr uint8_t kGrey = 127;

// Independent random numbers for each purpose and session.
enum class Purpose : uint64_t { images = 1, units, gaze, spikes, losses, unit_count };
uint64_t stream_of(Purpose purpose, uint64_t session, uint64_t which = 0) {
  return (uint64_t(purpose) << 56) + (session << 24) + which;
}

// Pictures, each with its left and upper edge repeated, so that a crop never wraps.
class Pictures {
 public:
  Pictures(uint64_t seed, uint64_t session, uint32_t side)
      : side_(side), width_(kImageSize + side) {
    for (uint32_t i = 0; i < kImages; ++i) {
      const auto image = one_over_f_image(kImageSize, seed, stream_of(Purpose::images, session, i));
      auto& wide = pictures_.emplace_back(uint64_t(width_) * width_);
      for (uint32_t y = 0; y < width_; ++y)
        for (uint32_t x = 0; x < width_; ++x)
          wide[uint64_t(y) * width_ + x] =
              image[uint64_t(y % kImageSize) * kImageSize + x % kImageSize];
    }
  }
  // out [side, side]
  void crop(const GazeRow& row, uint8_t* out) const {
    if (row.image < 0) {
      std::fill_n(out, uint64_t(side_) * side_, kGrey);
      return;
    }
    for (uint32_t y = 0; y < side_; ++y)
      std::copy_n(at(row) + uint64_t(y) * width_, side_, out + uint64_t(y) * side_);
  }
  // The spatial part of a unit's response to the frame of this row.
  float response(const GazeRow& row, const UnitField& unit) const {
    if (row.image < 0) return 0;
    const uint8_t* corner = at(row) + uint64_t(unit.y) * width_ + unit.x;
    const float* weight = unit.patch.data();
    float sum = 0;
    for (uint32_t y = 0; y < kFieldSide; ++y, corner += width_, weight += kFieldSide) {
      float line = 0;
      for (uint32_t x = 0; x < kFieldSide; ++x)
        line += weight[x] * float(int(corner[x]) - int(kGrey));
      sum += line;
    }
    return sum / 255.0f;
  }

 private:
  const uint8_t* at(const GazeRow& row) const {
    return pictures_[size_t(row.image)].data() + uint64_t(row.y) * width_ + row.x;
  }

  uint32_t side_, width_;
  std::vector<std::vector<uint8_t>> pictures_;
};

uint8_t poisson(double mean, Random& random) {
  double left = random.uniform(), chance = std::exp(-mean);
  uint32_t count = 0;
  while (left >= chance && count < 255) {
    left -= chance;
    chance *= mean / double(++count);
  }
  return uint8_t(count);
}

// Calls use(row, drive) for rows 0 .. rows - 1 of a segment, in order.
template <class Use>
void for_drives(const Pictures& pictures, const UnitField& unit, std::span<const GazeRow> rows,
                Use&& use) {
  std::vector<float> recent(kFieldLags, 0);  // newest first
  for (uint64_t t = 0; t < rows.size(); ++t) {
    std::copy_backward(recent.begin(), recent.end() - 1, recent.end());
    recent[0] = pictures.response(rows[t], unit);
    use(t, drive(unit, recent));
  }
}

void calibrate_unit(const Pictures& pictures, std::span<const GazeRow> rows, UnitField& unit) {
  rows = rows.first(std::min<size_t>(rows.size(), kCalibrationRows));
  std::vector<double> drives;
  for_drives(pictures, unit, rows, [&](uint64_t t, double value) {
    if (rows[t].image >= 0) drives.push_back(value);
  });
  calibrate(unit, drives);
}

class SessionMaker {
 public:
  SessionMaker(RecordingWriter& writer, const GenerateRecordingOptions& options, uint64_t session)
      : writer_(writer),
        options_(options),
        session_(session),
        pictures_(options.seed, session, options.side),
        units_(generate_units(count_units(), options.side, options.seed,
                              stream_of(Purpose::units, session))) {}

  void make(Progress& progress, uint64_t& done) {
    std::vector<std::string> names;
    for (size_t u = 0; u < units_.size(); ++u) names.push_back(fmt::format("u{:03}", u));
    const std::string name = fmt::format("m{}_{:03}", session_ % 2 + 1, session_);
    writer_.begin_session({.name = name,
                           .subject = fmt::format("m{}", session_ % 2 + 1),
                           .rate = options_.rate,
                           .units = names});
    const auto frames = uint64_t(std::llround(options_.minutes * 60 * options_.rate));
    const uint64_t flicker = session_ % 2 ? frames / 3 : 0;
    make_segment("images", GazeKind::viewing, frames - flicker, 0);
    if (flicker > 0) make_segment("flicker", GazeKind::flicker, flicker, 1);
    writer_.add_truth("spatial", spatial_truth(units_, options_.side));
    writer_.add_truth("temporal", temporal_truth(units_));
    writer_.add_truth("rates", rate_truth(units_));
    progress.advance(done += frames);
  }

 private:
  uint64_t count_units() const {
    Random random(options_.seed, stream_of(Purpose::unit_count, session_));
    return options_.units > 0 ? options_.units : 23 + random.below(181 - 23 + 1);
  }
  void make_segment(const std::string& name, GazeKind kind, uint64_t frames, uint64_t number) {
    // Numbers of stimuli differ between sessions and segments: their pictures do, too.
    const auto first = int32_t((session_ * 2 + number) * 100'000);
    rows_ = generate_gaze(
        {.kind = kind,
         .frames = frames,
         .rate = options_.rate,
         .images = kImages,
         .image_size = kImageSize,
         .seed = mix64(options_.seed ^ mix64(stream_of(Purpose::gaze, session_, number))),
         .first_trial = 0,
         .first_stimulus = first});
    if (number == 0)
      parallel_for(units_.size(), 0,
                   [&](uint64_t u) { calibrate_unit(pictures_, rows_, units_[u]); });
    writer_.begin_segment(name);
    add_stimulus();
    add_counts(number);
    add_losses(number);
    add_behaviour();
    add_column("tracked", FieldRole::validity, [](const GazeRow& row) { return row.is_tracked; });
    add_column("trial", FieldRole::trial, [](const GazeRow& row) { return row.trial; });
    add_column("stimulus", FieldRole::stimulus_id, [](const GazeRow& row) { return row.stimulus; });
    add_column("time", FieldRole::time, [](const GazeRow& row) { return row.time; });
  }
  template <class Value>
  void add_column(const std::string& name, FieldRole role, Value value) {
    std::vector<decltype(value(rows_[0]))> values;
    for (const GazeRow& row : rows_) values.push_back(value(row));
    writer_.add_field(name, role, Array::from(std::move(values)));
  }
  void add_stimulus() {
    const uint64_t pixels = uint64_t(options_.side) * options_.side;
    writer_.begin_field({.name = "stim",
                         .role = FieldRole::stimulus,
                         .row_shape = {options_.side, options_.side},
                         .rows = rows_.size()});
    std::vector<uint8_t> frames;
    for (uint64_t t = 0; t < rows_.size(); t += kRowsAtOnce) {
      frames.resize(std::min(kRowsAtOnce, rows_.size() - t) * pixels);
      for (uint64_t i = 0; i * pixels < frames.size(); ++i)
        pictures_.crop(rows_[t + i], frames.data() + i * pixels);
      writer_.append(std::as_bytes(std::span(frames)));
    }
    writer_.end_field();
  }
  void add_counts(uint64_t number) {
    std::vector<uint8_t> counts(rows_.size() * units_.size());
    parallel_for(units_.size(), 0, [&](uint64_t u) {
      Random random(options_.seed, stream_of(Purpose::spikes, session_, number << 16 | u));
      for_drives(pictures_, units_[u], rows_, [&](uint64_t t, double value) {
        const double rate = rate_of(units_[u], value, double(rows_[t].pupil));
        counts[t * units_.size() + u] = poisson(rate / options_.rate, random);
      });
    });
    const Shape shape = {rows_.size(), units_.size()};
    writer_.add_field("robs", FieldRole::counts, Array::from(std::move(counts), shape));
  }
  // A fifth of the units are lost for a fifth of the time.
  void add_losses(uint64_t number) {
    const uint64_t row_bytes = (units_.size() + 7) / 8;
    std::vector<uint8_t> bits(rows_.size() * row_bytes, 0);
    Random random(options_.seed, stream_of(Purpose::losses, session_, number));
    for (uint64_t u = 0; u < units_.size(); ++u) {
      const bool is_lost = random.below(5) == 0;
      const uint64_t length = rows_.size() / 5, begin = random.below(rows_.size() - length);
      for (uint64_t t = 0; t < rows_.size(); ++t)
        if (!is_lost || t < begin || t >= begin + length)
          bits[t * row_bytes + u / 8] |= uint8_t(1u << (u % 8));
    }
    writer_.begin_field({.name = "dfs",
                         .role = FieldRole::validity,
                         .row_shape = {units_.size()},
                         .packed = true,
                         .rows = rows_.size()});
    writer_.append(std::as_bytes(std::span(bits)));
    writer_.end_field();
  }
  void add_behaviour() {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    writer_.begin_field({.name = "behavior",
                         .role = FieldRole::behaviour,
                         .dtype = DType::f32,
                         .row_shape = {kBehaviours},
                         .rows = rows_.size()});
    std::vector<float> values;
    for (uint64_t t = 0; t < rows_.size(); ++t) {
      const GazeRow& row = rows_[t];
      const GazeRow& last = rows_[t > 0 ? t - 1 : 0];
      const bool is_seen = row.is_tracked != 0;
      const auto degrees = [](int pixels) {
        return float((pixels + int(kImageSize) * 3 / 2) % int(kImageSize) - int(kImageSize) / 2) /
               float(kPixelsADegree);
      };
      const float dx = degrees(int(row.x) - int(last.x)), dy = degrees(int(row.y) - int(last.y));
      values.push_back(is_seen ? degrees(int(row.x)) : kNan);
      values.push_back(is_seen ? degrees(int(row.y)) : kNan);
      values.push_back(is_seen ? std::sqrt(dx * dx + dy * dy) * float(options_.rate) : kNan);
      values.push_back(is_seen ? row.pupil : kNan);
      for (uint64_t k = 0; k < kTents; ++k)
        values.push_back(std::max(0.0f, 1 - std::abs(float(row.since) - 2 * float(k)) / 2));
      if (values.size() < kRowsAtOnce * kBehaviours && t + 1 < rows_.size()) continue;
      writer_.append(std::as_bytes(std::span(values)));
      values.clear();
    }
    writer_.end_field();
  }

  RecordingWriter& writer_;
  const GenerateRecordingOptions& options_;
  uint64_t session_;
  Pictures pictures_;
  std::vector<UnitField> units_;
  std::vector<GazeRow> rows_;
};

void check_generate_options(const GenerateRecordingOptions& options) {
  if (options.sessions == 0) throw UsageError("a recording has at least one session");
  if (!(options.minutes * 60 * options.rate >= 600) || options.minutes > 10'000)
    throw UsageError(
        "{} minutes at {} Hz; give each session at least 600 bins, and at most 10,000 "
        "minutes",
        options.minutes, options.rate);
  if (options.side < kFieldSide || options.side > kImageSize)
    throw UsageError("frames of {} pixels; from {} to {}", options.side, kFieldSide, kImageSize);
  if (options.units > 60'000) throw UsageError("{} units; at most 60,000", options.units);
  if (options.first_session + options.sessions > 10'000)
    throw UsageError("more than 10,000 sessions in all");
}

}  // namespace

Json to_json(const GenerateRecordingOptions& options) {
  return {{"sessions", options.sessions},
          {"minutes", options.minutes},
          {"seed", options.seed},
          {"side", options.side},
          {"rate", options.rate},
          {"units", options.units},
          {"first_session", options.first_session}};
}

Recording generate_recording(const fs::path& path, const GenerateRecordingOptions& options,
                             const std::string& command, Progress& progress) {
  check_generate_options(options);
  const Json made_by = {
      {"command", command}, {"settings", to_json(options)}, {"sources", Json::array()}};
  RecordingWriter writer(path, {.add = options.add}, made_by);
  const double frames = options.minutes * 60 * options.rate;
  progress.begin("generating", options.sessions * uint64_t(std::llround(frames)), "frames");
  uint64_t done = 0;
  for (uint64_t s = 0; s < options.sessions; ++s)
    SessionMaker(writer, options, options.first_session + s).make(progress, done);
  progress.end();
  return writer.commit(made_by);
}

}  // namespace lacuna
