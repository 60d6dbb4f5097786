// Batches on their way to the model's device, one ahead: what the feeds of screens (batch_feed.h)
// and of recordings (recording/window_feed.h) have in common.
//
//   struct Slot : FeedSlot { DeviceBatch batch; .. };  // buffers of one batch
//   FetchAhead<Slot> ahead(device, loader.state(), [&] { return std::make_unique<Slot>(..); });
//   const DeviceBatch* batch = ahead.next([&](Slot& slot) { .. });  // fills slot.batch
//
// On a GPU there are two slots: while the model works on one, the other is filled on a stream of
// its own; the model's stream waits for the copy, the host does not. On the CPU there is one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "lacuna/load/loader.h"

namespace lacuna {

struct FeedSlot {
  LoaderState after;  // where the loader stands behind this batch
  bool is_end = false;
  std::optional<c10::Stream> stream;  // on a GPU: of copies
  std::optional<c10::Event> copied, used;

  // The host's buffers have been read.
  void wait_for_copy() {
    if (copied) copied->synchronize();
  }
  // send() on the stream of copies, when the model has done with the device's buffers.
  template <class Send>
  void on_stream(const Send& send) {
    const c10::StreamGuard guard(*stream);
    used->block(*stream);
    send();
    copied->record(*stream);
  }
};

template <class Slot>
class FetchAhead {
 public:
  template <class Make>
  FetchAhead(at::Device device, const LoaderState& state, const Make& make)
      : device_(device), state_(state) {
    const bool is_cuda = device.is_cuda();
    std::optional<c10::Stream> stream;
    if (is_cuda) stream = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
    for (int i = 0; i < (is_cuda ? 2 : 1); ++i) {
      slots_.push_back(make());
      slots_.back()->stream = stream;
      if (!is_cuda) continue;
      slots_.back()->copied.emplace(device.type());
      slots_.back()->used.emplace(device.type());
    }
  }
  FetchAhead(const FetchAhead&) = delete;
  FetchAhead& operator=(const FetchAhead&) = delete;

  // A copy that is still under way reads the host's buffers and writes the device's, which torch
  // would hand to its next caller.
  ~FetchAhead() {
    for (const auto& slot : slots_) {
      try {
        slot->wait_for_copy();
      } catch (const std::exception&) {  // the device has failed: its next user gets the error
      }
    }
  }

  // The next batch, or null at the end of an epoch. fetch(slot) fills a slot from the loader.
  template <class Fetch>
  const auto* next(const Fetch& fetch) {
    const decltype(Slot::batch)* const none = nullptr;
    if (slots_.size() == 1) {
      Slot& slot = *slots_[0];
      fetch(slot);
      state_ = slot.after;
      return slot.is_end ? none : &slot.batch;
    }
    const auto model_stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    slots_[current_]->used->record(model_stream);
    if (!ahead_) fetch(*slots_[1 - current_]);
    current_ = 1 - current_;
    Slot& slot = *slots_[current_];
    state_ = slot.after;
    if (!slot.is_end) slot.copied->block(model_stream);
    // The batch after this one sets out now. At the end of an epoch the loader goes on into the
    // next.
    fetch(*slots_[1 - current_]);
    ahead_ = true;
    return slot.is_end ? none : &slot.batch;
  }

  // Where the loader stood after the last batch that was given out.
  const LoaderState& state() const { return state_; }
  // The loader stands there now: what was fetched ahead is dropped.
  void seek(const LoaderState& state) {
    state_ = state;
    ahead_ = false;
  }

 private:
  at::Device device_;
  std::vector<std::unique_ptr<Slot>> slots_;
  size_t current_ = 0;
  bool ahead_ = false;  // the other slot holds what comes next
  LoaderState state_;
};

}  // namespace lacuna
