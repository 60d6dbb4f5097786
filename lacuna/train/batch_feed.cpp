#include "lacuna/train/batch_feed.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"

namespace lacuna {
namespace {

// Tensors of the first B samples of buffers that hold more.
DeviceBatch part_of(const DeviceBatch& whole, int64_t size) {
  DeviceBatch part;
  part.input = {whole.input.removed, whole.input.ptr.narrow(0, 0, size + 1),
                whole.input.sets.narrow(0, 0, size)};
  part.labels = whole.labels.narrow(0, 0, size);
  if (whole.weights.defined()) part.weights = whole.weights.narrow(0, 0, size);
  return part;
}

DeviceBatch make_buffers(const FeedOptions& options, int64_t labels, bool pinned) {
  const auto floats = at::TensorOptions(at::kFloat).pinned_memory(pinned);
  DeviceBatch buffers;
  buffers.input = make_input(options.batch, options.widest, pinned);
  buffers.labels = at::empty({options.batch, labels}, floats);
  if (options.has_weights) buffers.weights = at::empty({options.batch}, floats);
  return buffers;
}

DeviceBatch on_device(const DeviceBatch& host, at::Device device) {
  DeviceBatch batch;
  batch.input = {at::empty_like(host.input.removed, device), at::empty_like(host.input.ptr, device),
                 at::empty_like(host.input.sets, device)};
  batch.labels = at::empty_like(host.labels, device);
  if (host.weights.defined()) batch.weights = at::empty_like(host.weights, device);
  return batch;
}

void fill(const ScreenBatch& from, const LabelScale& labels, DeviceBatch& to) {
  fill_input(from.removed(), from.ptr(), to.input);
  float* out = to.labels.mutable_data_ptr<float>();
  for (uint64_t b = 0; b < from.size(); ++b)
    for (uint64_t l = 0; l < labels.size(); ++l)
      *out++ = labels.standardise(l, from.labels()[b * from.label_count() + labels.columns[l]]);
  if (to.weights.defined()) {
    const auto weights = from.columns()[0].as<float>();
    std::ranges::copy(weights, to.weights.mutable_data_ptr<float>());
  }
}

}  // namespace

DeviceBatch clone(const DeviceBatch& batch) {
  DeviceBatch result = on_device(batch, batch.labels.device());
  copy(batch, result);
  result.samples = batch.samples;
  return result;
}

void copy(const DeviceBatch& from, DeviceBatch& to) {
  to.input.removed.copy_(from.input.removed, /*non_blocking=*/true);
  to.input.ptr.copy_(from.input.ptr, true);
  to.input.sets.copy_(from.input.sets, true);
  to.labels.copy_(from.labels, true);
  if (from.weights.defined()) to.weights.copy_(from.weights, true);
}

// One batch on its way: buffers on the host and on the device, and when they may be used again.
struct BatchFeed::Slot {
  DeviceBatch host, device;  // the same on the CPU
  DeviceBatch batch;         // what is given out
  LoaderState after;
  bool is_end = false;
  std::optional<c10::Stream> stream;
  std::optional<c10::Event> copied, used;
};

BatchFeed::BatchFeed(Loader<ScreenSource>& loader, const LabelScale& labels,
                     const FeedOptions& options)
    : loader_(loader), labels_(labels), options_(options), state_(loader.state()) {
  const bool is_cuda = options.device.is_cuda();
  std::optional<c10::Stream> stream;
  if (is_cuda)
    stream = c10::impl::VirtualGuardImpl(options.device.type()).getNewStream(options.device);
  for (int i = 0; i < (is_cuda ? 2 : 1); ++i) {
    auto slot = std::make_unique<Slot>();
    slot->host = make_buffers(options, int64_t(labels.size()), is_cuda);
    slot->device = is_cuda ? on_device(slot->host, options.device) : slot->host;
    slot->stream = stream;
    if (is_cuda) {
      slot->copied.emplace(options.device.type());
      slot->used.emplace(options.device.type());
    }
    slots_.push_back(std::move(slot));
  }
}

BatchFeed::~BatchFeed() = default;

void BatchFeed::fetch(Slot& slot) {
  BatchRef<ScreenBatch> batch;
  {
    const Scope scope("load");
    batch = loader_.next();
  }
  slot.after = loader_.state();
  slot.is_end = !batch;
  if (slot.is_end) return;
  const Scope scope("copy");
  if (slot.copied) slot.copied->synchronize();  // the host's buffers have been read
  const int64_t size = int64_t(batch->size());
  DeviceBatch host = part_of(slot.host, size);
  fill(*batch, labels_, host);
  slot.batch = part_of(slot.device, size);
  slot.batch.samples.assign(batch->samples().begin(), batch->samples().end());
  if (!slot.stream) return;
  const c10::StreamGuard guard(*slot.stream);
  slot.used->block(*slot.stream);  // the model has done with the device's buffers
  copy(slot.host, slot.device);
  slot.copied->record(*slot.stream);
}

const DeviceBatch* BatchFeed::next() {
  if (slots_.size() == 1) {
    Slot& slot = *slots_[0];
    fetch(slot);
    state_ = slot.after;
    return slot.is_end ? nullptr : &slot.batch;
  }
  const auto model_stream =
      c10::impl::VirtualGuardImpl(options_.device.type()).getStream(options_.device);
  slots_[current_]->used->record(model_stream);
  if (!ahead_) fetch(*slots_[1 - current_]);
  current_ = 1 - current_;
  Slot& slot = *slots_[current_];
  state_ = slot.after;
  if (!slot.is_end) slot.copied->block(model_stream);
  // The batch after this one sets out now. At the end of an epoch the loader goes on into the next.
  fetch(*slots_[1 - current_]);
  ahead_ = true;
  return slot.is_end ? nullptr : &slot.batch;
}

int64_t widest_removal(const Samples& samples) {
  const RemovedReader reader(samples);
  uint64_t widest = 0;
  for (uint64_t s = 0; s < reader.size(); ++s) widest = std::max(widest, reader.count(s));
  return int64_t(widest);
}

void check_weights(const Samples& samples, const std::string& column) {
  const Column found = find_values(samples, column);
  if (found.is_category() || found.values.dtype() != DType::f32)
    throw Error("train.weight_column '{}' is not a column of f32 numbers", column);
  for (uint64_t s = 0; s < samples.size(); ++s)
    if (const double weight = found.number(s); !(weight >= 0) || !std::isfinite(weight))
      throw Error("sample {} has weight {} in column '{}'; weights are numbers from 0 on", s,
                  weight, column);
}

}  // namespace lacuna
