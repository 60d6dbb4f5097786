#include "lacuna/train/batch_feed.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

// f(a's tensor, b's tensor) for all that a has.
template <class F>
void for_each_tensor(const DeviceBatch& a, DeviceBatch& b, F f) {
  const auto both = [&](const at::Tensor& x, at::Tensor& y) {
    if (x.defined()) f(x, y);
  };
  both(a.input.removed, b.input.removed);
  both(a.input.ptr, b.input.ptr);
  both(a.input.sets, b.input.sets);
  both(a.input.masks, b.input.masks);
  both(a.labels, b.labels);
  both(a.weights, b.weights);
}

// Tensors of the first B samples of buffers that hold more.
DeviceBatch part_of(const DeviceBatch& whole, int64_t size) {
  DeviceBatch part;
  part.input = {whole.input.removed, whole.input.ptr.narrow(0, 0, size + 1),
                whole.input.sets.narrow(0, 0, size)};
  if (whole.input.masks.defined()) part.input.masks = whole.input.masks.narrow(0, 0, size + 1);
  part.labels = whole.labels.narrow(0, 0, size);
  if (whole.weights.defined()) part.weights = whole.weights.narrow(0, 0, size);
  return part;
}

// Masks have a buffer only where they are sent to a device.
DeviceBatch make_buffers(const FeedOptions& options, int64_t labels, const RungMasks& masks) {
  const bool is_sent = options.device.is_cuda();
  const auto floats = at::TensorOptions(at::kFloat).pinned_memory(is_sent);
  DeviceBatch buffers;
  buffers.input = make_input(options.batch, is_sent ? options.widest : 0, is_sent);
  if (is_sent && masks.loads_masks())
    buffers.input.masks =
        at::empty({options.batch + 1, int64_t(masks.layout().stride())}, floats.dtype(at::kByte));
  buffers.labels = at::empty({options.batch, labels}, floats);
  if (options.weights) buffers.weights = at::empty({options.batch}, floats);
  return buffers;
}

DeviceBatch on_device(const DeviceBatch& host, at::Device device) {
  DeviceBatch batch;
  for_each_tensor(host, batch,
                  [&](const at::Tensor& x, at::Tensor& y) { y = at::empty_like(x, device); });
  return batch;
}

// out: [B + 1, stride], or more rows
void copy_masks(const RungBatch& batch, const RungMasks& masks, uint8_t* out) {
  const uint64_t stride = masks.layout().stride();
  parallel_for(batch.size() + 1, 0, [&](uint64_t b) {
    const uint8_t* from = b < batch.size() ? batch.records()[b] : masks.wild_type().data();
    std::memcpy(out + b * stride, from, stride);
  });
}

void fill_labels(const ScreenBatch& from, const LabelScale& labels,
                 const std::optional<Column>& weights, DeviceBatch& to) {
  float* out = to.labels.mutable_data_ptr<float>();
  for (uint64_t b = 0; b < from.size(); ++b)
    for (uint64_t l = 0; l < labels.size(); ++l)
      *out++ = labels.standardise(l, from.labels()[b * from.label_count() + labels.columns[l]]);
  if (!weights) return;
  float* weight = to.weights.mutable_data_ptr<float>();
  for (const uint64_t sample : from.samples()) *weight++ = float(weights->number(sample));
}

}  // namespace

at::Tensor mask_tensor(const RungBatch& batch, const RungMasks& masks) {
  if (!masks.loads_masks()) return {};
  const int64_t rows = int64_t(batch.size()) + 1, stride = int64_t(masks.layout().stride());
  if (batch.block())
    return at::from_blob(const_cast<uint8_t*>(batch.block()), {rows, stride}, at::kByte);
  const at::Tensor copied = at::empty({rows, stride}, at::kByte);
  copy_masks(batch, masks, copied.mutable_data_ptr<uint8_t>());
  return copied;
}

DeviceBatch clone(const DeviceBatch& batch) {
  DeviceBatch result = on_device(batch, batch.labels.device());
  copy(batch, result);
  result.samples = batch.samples;
  return result;
}

void copy(const DeviceBatch& from, DeviceBatch& to) {
  for_each_tensor(from, to,
                  [](const at::Tensor& x, at::Tensor& y) { y.copy_(x, /*non_blocking=*/true); });
}

std::unique_ptr<Batch> DeviceBatch::clone() const {
  return std::make_unique<DeviceBatch>(lacuna::clone(*this));
}

void DeviceBatch::assign(const Batch& other) {
  copy(static_cast<const DeviceBatch&>(other), *this);
}

// One batch on its way: buffers on the host and on the device, and when they may be used again.
struct BatchFeed::Slot : FeedSlot {
  DeviceBatch host, device;  // the same on the CPU
  DeviceBatch batch;         // what is given out
  BatchRef<RungBatch> held;  // on the CPU: keeps the masks that `batch` has a view of
};

BatchFeed::BatchFeed(Loader<RungSource>& loader, const LabelScale& labels,
                     const FeedOptions& options)
    : loader_(loader), labels_(labels), options_(options) {
  ahead_ = std::make_unique<FetchAhead<Slot>>(options.device, loader.state(), [&] {
    auto slot = std::make_unique<Slot>();
    slot->host = make_buffers(options, int64_t(labels.size()), loader.source().masks());
    slot->device = options.device.is_cuda() ? on_device(slot->host, options.device) : slot->host;
    return slot;
  });
}

BatchFeed::~BatchFeed() = default;

void BatchFeed::fetch(Slot& slot) {
  BatchRef<RungBatch> batch;
  {
    const Scope scope("load");
    batch = loader_.next();
  }
  slot.after = loader_.state();
  slot.is_end = !batch;
  if (slot.is_end) return;
  const Scope scope("copy");
  slot.wait_for_copy();
  const int64_t size = int64_t(batch->size());
  DeviceBatch host = part_of(slot.host, size);
  const ScreenBatch& from = batch->samples();
  if (slot.stream)
    fill_input(from.removed(), from.ptr(), host.input);
  else
    host.input = make_input(from.removed(), from.ptr());
  fill_labels(from, labels_, options_.weights, host);
  slot.batch = slot.stream ? part_of(slot.device, size) : host;
  if (const OrderSettings& order = loader_.order().settings(); order.world > 1) {
    const Order::Share share = loader_.order().share(slot.after.position - 1);
    slot.batch.input.first = int64_t(share.first);
    slot.batch.input.all = int64_t(share.all);
  }
  const auto numbers = batch->samples().samples();
  slot.batch.samples.assign(numbers.begin(), numbers.end());
  const RungMasks& masks = loader_.source().masks();
  if (!slot.stream) {
    slot.batch.input.masks = mask_tensor(*batch, masks);
    slot.held = std::move(batch);
    return;
  }
  if (masks.loads_masks())
    copy_masks(*batch, masks, slot.host.input.masks.mutable_data_ptr<uint8_t>());
  slot.on_stream([&] { copy(slot.host, slot.device); });
}

const DeviceBatch* BatchFeed::next() {
  return ahead_->next([&](Slot& slot) { fetch(slot); });
}

const LoaderState& BatchFeed::state() const { return ahead_->state(); }

void BatchFeed::seek(const LoaderState& state) {
  loader_.seek(state);
  ahead_->seek(state);
}

int64_t widest_removal(const Samples& samples) {
  const RemovedReader reader(samples);
  uint64_t widest = 0;
  for (uint64_t s = 0; s < reader.size(); ++s) widest = std::max(widest, reader.count(s));
  return int64_t(widest);
}

Column weights_of(const Samples& samples, const std::string& name,
                  std::span<const uint32_t> chosen) {
  const Column column = find_values(samples, name);
  if (column.is_category())
    throw Error("train.weight_column '{}' has categories; name a column of numbers", name);
  for (const uint32_t sample : chosen)
    if (const double weight = column.number(sample);
        !(weight >= 0) || !std::isfinite(float(weight)))
      throw Error(
          "training sample {} has weight {} in column '{}'; weights are numbers from 0 on, so mend "
          "the column or leave the sample out (`lacuna subset`)",
          sample, weight, name);
  return column;
}

}  // namespace lacuna
