#include "lacuna/ladder/recording_source.h"

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/system/scratch.h"
#include "lacuna/core/text/text.h"
#include "lacuna/recording/window_fields.h"

namespace lacuna {
namespace {

std::shared_ptr<std::byte> ordinary_memory(uint64_t bytes) {
  const auto owner = std::make_shared<Scratch<std::byte>>(bytes);
  return {owner, owner->get()};
}

}  // namespace

RecordingSource::RecordingSource(const Windows& windows, Frames frames,
                                 RecordingSourceOptions options)
    : windows_(windows),
      frames_(std::move(frames)),
      options_(std::move(options)),
      fields_(std::make_shared<WindowFields>(windows_)) {
  if (options_.batch == 0) throw Error("a batch of 0 windows: it needs at least 1");
  if (!options_.allocate) options_.allocate = ordinary_memory;
  for (const uint64_t window : options_.selection)
    if (window >= windows_.size())
      throw Error("window {} is selected, but there are {}", window, windows_.size());
}

uint64_t RecordingSource::size() const {
  return options_.selection.empty() ? windows_.size() : options_.selection.size();
}

std::vector<uint64_t> RecordingSource::first() const {
  std::vector<uint64_t> first = {0};
  const auto& selection = options_.selection;
  if (!std::ranges::is_sorted(selection))
    throw Error("selected windows are drawn by session: sort their numbers");
  for (uint32_t s = 0; s < windows_.recording().sessions().size(); ++s) {
    const auto [begin, end] = windows_.of_session(s);
    first.push_back(selection.empty()
                        ? std::max(end, first.back())
                        : uint64_t(std::ranges::lower_bound(selection, std::max(begin, end)) -
                                   selection.begin()));
    first.back() = std::max(first.back(), first[first.size() - 2]);
  }
  return first;
}

uint64_t RecordingSource::batch_bytes() const {
  if (is_resident(frames_.rung())) return 0;
  return options_.batch * windows_.settings().stimulus.lags * frames_.frame_bytes();
}

uint64_t RecordingSource::prefetch(int threads, uint64_t bytes) const {
  const uint64_t enough = uint64_t(std::max(threads, 1)) + 2;
  if (batch_bytes() == 0) return enough;
  return std::clamp<uint64_t>(bytes / batch_bytes(), 1, enough);
}

void RecordingSource::fill(std::span<const uint64_t> places, RecordingBatch& out) const {
  out.windows.assign(places.begin(), places.end());
  if (!options_.selection.empty())
    for (uint64_t& window : out.windows) window = options_.selection[window];
  order_by_session(windows_, out.windows);
  fields_->fill(out);
  fill_stimulus(out);
}

// One gather, straight to where the frames belong.
void RecordingSource::fill_stimulus(RecordingBatch& out) const {
  const LaggedField& stimulus = windows_.settings().stimulus;
  const uint64_t lags = stimulus.lags, step = windows_.settings().step;
  out.stimulus_dtype = frames_.dtype();
  out.stimulus_shape = {out.size(), lags};
  out.stimulus_shape.insert(out.stimulus_shape.end(), frames_.frame_shape().begin(),
                            frames_.frame_shape().end());
  out.resident.clear();
  if (is_resident(frames_.rung())) {
    out.stimulus = nullptr;
    for (const uint64_t window : out.windows) {
      const Window at = windows_.at(window);
      out.resident.push_back(
          int64_t(frames_.resident_row(at.session, at.segment, newest_row(at, stimulus, step))));
    }
    return;
  }
  const uint64_t window_bytes = lags * frames_.frame_bytes();
  const uint64_t wanted = std::max(options_.batch, out.size()) * window_bytes;
  if (out.capacity_ < wanted) {
    out.buffer_.reset();
    out.buffer_ = options_.allocate(wanted);
    out.capacity_ = wanted;
  }
  out.stimulus = out.buffer_.get();
  std::byte* to = out.stimulus;
  for (const uint64_t window : out.windows) {
    const Window at = windows_.at(window);
    frames_.read(at.session, at.segment, newest_row(at, stimulus, step), lags, step, to);
    to += window_bytes;
  }
}

}  // namespace lacuna
