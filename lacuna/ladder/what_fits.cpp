#include "lacuna/ladder/what_fits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lacuna/core/text/text.h"
#include "lacuna/ladder/chunk_sample.h"
#include "lacuna/ladder/guards.h"

namespace lacuna {
namespace {

using Words = std::vector<std::string>;

std::string size_text(double bytes) { return format_bytes(uint64_t(bytes)); }

void add_sessions(const std::vector<double>& bytes, double room, Words& list) {
  size_t count = 0;
  double sum = 0;
  while (count < bytes.size() && sum + bytes[count] <= room) sum += bytes[count++];
  if (count > 0 && count < bytes.size())
    list.push_back(
        fmt::format("the first {} of {} sessions, {}", count, bytes.size(), size_text(sum)));
}

void add_rate(double bytes, double room, Words& list) {
  const double step = std::ceil(bytes / std::max(room, 1.0));
  if (step < 2 || step > 1000) return;
  list.push_back(fmt::format("one frame in {}, {} (`lacuna transform` with --step {})", step,
                             size_text(bytes / step), step));
}

void add_resolution(double bytes, double room, const Shape& frame, Words& list) {
  const double times = bytes / std::max(room, 1.0);
  if (frame.size() != 2 || times <= 1) return;
  const double part = 1 / std::sqrt(times);
  const auto height = uint64_t(double(frame[0]) * part);
  const auto width = uint64_t(double(frame[1]) * part);
  if (height == 0 || width == 0) return;
  const double scale = double(height * width) / double(frame[0] * frame[1]);
  list.push_back(fmt::format("frames of {0}x{1}, {2} (--resize {0}x{1})", height, width,
                             size_text(bytes * scale)));
}

class Fitting {
 public:
  Fitting(const Recording& recording, const FitRequest& request)
      : recording_(recording), request_(request) {
    for (const Session& session : recording.sessions()) {
      const auto& chosen = request.sessions;
      if (!chosen.empty() && std::ranges::find(chosen, session.name) == chosen.end()) continue;
      pixels_.push_back(0);
      for (const Segment& segment : session.segments)
        if (const Field* field = segment.find(request.field)) {
          pixels_.back() += field->rows() * field->columns();
          is_u8_ = is_u8_ && field->dtype == DType::u8;
          frame_.assign(field->shape.begin() + 1, field->shape.end());
        }
      all_ += pixels_.back();
    }
    if (is_u8_ && all_ > 0)
      ratio_ = sample_chunks(recording, {.form = Form::chunks, .field = request.field},
                             {.chunks = 24, .seconds = 0.1})
                   .ratio();
  }

  std::string words() const {
    Words list;
    add_rungs(list);
    std::vector<double> sessions;
    for (const uint64_t pixels : pixels_) sessions.push_back(double(pixels) * bytes_a_pixel());
    for (const std::string& way : smaller_ways(sessions, double(request_.room), frame_))
      list.push_back(way);
    list.push_back(
        fmt::format("`lacuna plan {}` compares them all", shell_word(recording_.path().string())));
    return fmt::format("what fits: {}", fmt::join(list, "; "));
  }

 private:
  bool is_memory() const { return request_.rung.place != Place::disk; }
  double bytes_a_pixel(Form form) const {
    return form == Form::chunks ? 1 / ratio_ : double(item_size(held_dtype({Place::ram, form})));
  }
  double bytes_a_pixel() const { return bytes_a_pixel(request_.rung.form); }

  void add_rungs(Words& list) const {
    const std::string_view own = is_u8_ ? "disk:u8" : "disk:f32";
    list.push_back(is_memory()
                       ? fmt::format("{} holds no frames in memory", own)
                       : fmt::format("{} reads the recording itself and writes nothing", own));
    for (const Form form : {Form::u8, Form::chunks, Form::bf16}) {
      const bool is_other = form == Form::bf16 || is_u8_;
      if (!is_other || (form == Form::u8 && !is_memory())) continue;
      const double needed = double(all_) * bytes_a_pixel(form);
      if (needed >= double(all_) * bytes_a_pixel() || needed > double(request_.room)) continue;
      list.push_back(fmt::format("{} takes {}",
                                 name(Rung{is_memory() ? Place::ram : Place::disk, form}),
                                 size_text(needed)));
    }
    if (is_memory() && is_u8_ && request_.room > 0 && request_.room < all_)
      list.push_back(fmt::format("tiered with {} of them in memory (tiered.hot)",
                                 format_bytes(request_.room)));
  }

  const Recording& recording_;
  const FitRequest& request_;
  std::vector<uint64_t> pixels_;  // of each session that is read
  uint64_t all_ = 0;
  Shape frame_;  // [Y, X]
  bool is_u8_ = true;
  double ratio_ = 1;
};

}  // namespace

std::vector<std::string> smaller_ways(const std::vector<double>& session_bytes, double room,
                                      const Shape& frame) {
  Words list;
  const double all = std::accumulate(session_bytes.begin(), session_bytes.end(), 0.0);
  add_sessions(session_bytes, room, list);
  add_rate(all, room, list);
  add_resolution(all, room, frame, list);
  return list;
}

std::string what_fits(const Recording& recording, const FitRequest& request) {
  return Fitting(recording, request).words();
}

void check_derive_room(const DeriveNeed& need, const fs::path& out) {
  const auto bytes = double(need.bytes());
  const Room free = disk_room(need.bytes(), out);
  if (free.fits()) return;
  const auto room = double(disk_room(0, out).left());
  Words list = {"a folder on another disk"};
  if (need.has_floats && bytes / 4 <= room)
    list.push_back(fmt::format("frames cast to u8 at the end, about {}", size_text(bytes / 4)));
  else if (need.has_floats && bytes / 2 <= room)
    list.push_back(fmt::format("frames cast to bf16 at the end, about {}", size_text(bytes / 2)));
  const std::vector<double> sessions(need.session_bytes.begin(), need.session_bytes.end());
  for (const std::string& way : smaller_ways(sessions, room, need.frame)) list.push_back(way);
  check_disk_room(need.bytes(), out,
                  fmt::format("writing the transforms of {} sessions", need.session_bytes.size()),
                  fmt::format("what fits: {}", fmt::join(list, "; ")));
}

}  // namespace lacuna
