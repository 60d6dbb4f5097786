#include "lacuna/ladder/what_fits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/text/text.h"
#include "lacuna/ladder/chunk_sample.h"

namespace lacuna {
namespace {

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
    std::vector<std::string> list;
    add_rungs(list);
    add_sessions(list);
    add_rate(list);
    add_resolution(list);
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
  std::string size(double pixels, double a_pixel) const {
    return format_bytes(uint64_t(pixels * a_pixel));
  }

  void add_rungs(std::vector<std::string>& list) const {
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
                                 size(double(all_), bytes_a_pixel(form))));
    }
    if (is_memory() && is_u8_ && request_.room > 0 && request_.room < all_)
      list.push_back(fmt::format("tiered with {} of them in memory (tiered.hot)",
                                 format_bytes(request_.room)));
  }

  void add_sessions(std::vector<std::string>& list) const {
    uint64_t count = 0, pixels = 0;
    while (count < pixels_.size() &&
           double(pixels + pixels_[count]) * bytes_a_pixel() <= double(request_.room))
      pixels += pixels_[count++];
    if (count > 0 && count < pixels_.size())
      list.push_back(fmt::format("the first {} of {} sessions, {}", count, pixels_.size(),
                                 size(double(pixels), bytes_a_pixel())));
  }

  // How often what is wanted is what there is room for.
  double times() const {
    return double(all_) * bytes_a_pixel() / double(std::max<uint64_t>(request_.room, 1));
  }

  void add_rate(std::vector<std::string>& list) const {
    const double step = std::ceil(times());
    if (step < 2 || step > 1000) return;
    list.push_back(fmt::format("one frame in {}, {} (`lacuna transform` with --step {})", step,
                               size(double(all_) / step, bytes_a_pixel()), step));
  }

  void add_resolution(std::vector<std::string>& list) const {
    if (frame_.size() != 2 || times() <= 1) return;
    const double part = 1 / std::sqrt(times());
    const auto height = uint64_t(double(frame_[0]) * part);
    const auto width = uint64_t(double(frame_[1]) * part);
    if (height == 0 || width == 0) return;
    const double frames = double(all_) / double(frame_[0] * frame_[1]);
    list.push_back(fmt::format("frames of {0}x{1}, {2} (--resize {0}x{1})", height, width,
                               size(frames * double(height * width), bytes_a_pixel())));
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

std::string what_fits(const Recording& recording, const FitRequest& request) {
  return Fitting(recording, request).words();
}

}  // namespace lacuna
