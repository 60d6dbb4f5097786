#include "lacuna/train/recording/window_feed.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/torch/windows.h"
#include "lacuna/train/recording/recording_order.h"

namespace lacuna {
namespace {

at::ScalarType scalar_type(DType dtype) {
  return dtype == DType::u8 ? at::kByte : dtype == DType::bf16 ? at::kBFloat16 : at::kFloat;
}

// One session's part of the packed floats: counts, validity, inputs.
struct PackedPart {
  int64_t windows, targets, units, inputs;
  int64_t rows() const { return windows * targets; }
  int64_t floats() const { return rows() * (2 * units + inputs); }
};

// Of an input a window has the lags of all its target rows, newest first: each row takes its own.
void pack_input(const std::vector<float>& input, int64_t lags, const SessionScale& scale,
                const PackedPart& sizes, int64_t first, float* out) {
  const int64_t span = lags + sizes.targets - 1;
  const int64_t columns = int64_t(input.size()) / std::max<int64_t>(sizes.windows * span, 1);
  for (int64_t b = 0; b < sizes.windows; ++b)
    for (int64_t r = 0; r < sizes.targets; ++r) {
      const float* const from = input.data() + (b * span + sizes.targets - 1 - r) * columns;
      float* const to = out + (b * sizes.targets + r) * sizes.inputs + first;
      for (int64_t k = 0; k < lags * columns; ++k)
        to[k] = float((from[k] - scale.input_mean[size_t(first + k)]) /
                      scale.input_sd[size_t(first + k)]);
    }
}

void pack(const SessionPart& part, const std::vector<LaggedField>& inputs,
          const SessionScale& scale, const PackedPart& sizes, float* out) {
  out = std::copy(part.counts.begin(), part.counts.end(), out);
  out = std::copy(part.validity.begin(), part.validity.end(), out);
  int64_t first = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto lags = int64_t(inputs[i].lags);
    pack_input(part.inputs[i], lags, scale, sizes, first, out);
    first += int64_t(part.inputs[i].size()) /
             std::max<int64_t>(sizes.windows * (lags + sizes.targets - 1), 1) * lags;
  }
}

// A tensor with at least so many numbers, kept where it has room.
void make_room(at::Tensor& tensor, int64_t numbers, const at::TensorOptions& options) {
  if (!tensor.defined() || tensor.numel() < numbers)
    tensor = at::empty({numbers + numbers / 4}, options);
}

std::shared_ptr<std::byte> pinned(uint64_t bytes) {
  const auto owner = std::make_shared<at::Tensor>(
      at::empty({int64_t(bytes)}, at::TensorOptions(at::kByte).pinned_memory(true)));
  return {owner, static_cast<std::byte*>(owner->mutable_data_ptr())};
}

RecordingSourceOptions source_options(const RecordingSession& session, uint64_t batch) {
  RecordingSourceOptions options = {.batch = batch};
  if (session.device.is_cuda()) options.allocate = pinned;
  return options;
}

Loader<RecordingSource, SessionOrder> training_loader(const RecordingSession& session) {
  const TrainOptions& train = session.config.train;
  const auto world = int64_t(session.group->world());
  const RecordingSource source(
      session.training, session.frames,
      source_options(session, uint64_t((train.batch + world - 1) / world)));
  return Loader<RecordingSource, SessionOrder>(
      source, training_order(session),
      {.threads = int(train.threads), .prefetch = source.prefetch(int(train.threads))});
}

}  // namespace

std::unique_ptr<Batch> DeviceWindows::clone() const {
  auto copy = std::make_unique<DeviceWindows>(*this);
  const auto own = [](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.clone();
  };
  own(copy->input.stimulus);
  for (auto* list : {&copy->input.inputs, &copy->counts, &copy->validity})
    for (at::Tensor& tensor : *list) own(tensor);
  return copy;
}

void DeviceWindows::assign(const Batch& other) {
  const auto& from = static_cast<const DeviceWindows&>(other);
  LACUNA_ASSERT(from.input.ptr == input.ptr && from.input.sessions == input.sessions);
  const auto copy = [](at::Tensor& to, const at::Tensor& x) {
    if (x.defined()) to.copy_(x, /*non_blocking=*/true);
  };
  copy(input.stimulus, from.input.stimulus);
  for (size_t s = 0; s < counts.size(); ++s) {
    copy(input.inputs[s], from.input.inputs[s]);
    copy(counts[s], from.counts[s]);
    copy(validity[s], from.validity[s]);
  }
}

at::Tensor WindowPlacer::place_stimulus(const RecordingBatch& batch) {
  const RecordingSession& session = *session_;
  const WindowSettings& settings = session.config.recording.windows;
  const int64_t B = int64_t(batch.size()), lags = int64_t(batch.stimulus_shape.at(1));
  const Shape& frame = session.frames.frame_shape();
  const std::vector<int64_t> shape = {B, lags, int64_t(frame[0]), int64_t(frame[1])};
  if (session.movie.defined()) {
    make_room(rows_, B, at::TensorOptions(at::kLong).pinned_memory(true));
    std::copy(batch.resident.begin(), batch.resident.end(), rows_.mutable_data_ptr<int64_t>());
    const auto newest = rows_.narrow(0, 0, B).to(session.device, at::kLong, /*non_blocking=*/true);
    const bool is_bf16 = session.config.train.precision == "bf16";
    return gather_windows(session.movie, newest, lags, int64_t(settings.step),
                          is_bf16 ? at::kBFloat16 : at::kFloat);
  }
  const auto dtype = scalar_type(batch.stimulus_dtype);
  const at::Tensor host = at::from_blob(batch.stimulus, shape, dtype);
  if (session.device.is_cpu()) return host;
  make_room(stimulus_, host.numel(), at::TensorOptions(session.device).dtype(dtype));
  const at::Tensor there = stimulus_.narrow(0, 0, host.numel()).view(shape);
  // from_blob does not know that its memory is pinned: the copy asks the driver, which does.
  return there.copy_(host, /*non_blocking=*/true);
}

DeviceWindows WindowPlacer::place(const RecordingBatch& batch) {
  const RecordingSession& session = *session_;
  DeviceWindows result;
  result.windows = batch.windows;
  result.input.stimulus = place_stimulus(batch);
  const std::vector<LaggedField>& inputs = session.config.recording.windows.inputs;
  const int64_t targets = session.model->target_rows(result.input.stimulus);
  std::vector<PackedPart> parts;
  int64_t floats = 0;
  for (const SessionPart& part : batch.parts) {
    const int64_t s = session.model_session(part.session);
    LACUNA_ASSERT(s >= 0);
    result.input.sessions.push_back(s);
    result.input.ptr.push_back(result.input.ptr.back() + int64_t(part.windows));
    parts.push_back({int64_t(part.windows), targets, int64_t(part.units),
                     session.model->shape().sessions[size_t(s)].inputs});
    floats += parts.back().floats();
  }
  const bool is_sent = session.device.is_cuda();
  make_room(host_, floats, at::TensorOptions(at::kFloat).pinned_memory(is_sent));
  float* out = host_.mutable_data_ptr<float>();
  for (size_t i = 0; i < parts.size(); ++i) {
    pack(batch.parts[i], inputs, session.scales[size_t(result.input.sessions[i])], parts[i], out);
    out += parts[i].floats();
  }
  at::Tensor packed = host_;
  if (is_sent) {
    make_room(device_, floats, at::TensorOptions(session.device).dtype(at::kFloat));
    device_.narrow(0, 0, floats).copy_(host_.narrow(0, 0, floats), /*non_blocking=*/true);
    packed = device_;
  }
  int64_t at = 0;
  for (const PackedPart& part : parts) {
    const auto take = [&](int64_t columns) {
      const at::Tensor tensor = packed.narrow(0, at, part.rows() * columns);
      at += part.rows() * columns;
      return tensor.view({part.rows(), columns});
    };
    result.counts.push_back(take(part.units));
    result.validity.push_back(take(part.units));
    result.input.inputs.push_back(part.inputs > 0 ? take(part.inputs) : at::Tensor());
  }
  return result;
}

struct WindowFeed::Slot : FeedSlot {
  explicit Slot(const RecordingSession& session) : placer(session) {}
  WindowPlacer placer;
  BatchRef<RecordingBatch> held;  // what `batch` looks at, or a copy still reads
  DeviceWindows batch;
};

WindowFeed::WindowFeed(const RecordingSession& session)
    : session_(session), loader_(training_loader(session)) {
  ahead_ = std::make_unique<FetchAhead<Slot>>(session.device, loader_.state(),
                                              [&] { return std::make_unique<Slot>(session); });
}

WindowFeed::~WindowFeed() = default;

void WindowFeed::fetch(Slot& slot) {
  BatchRef<RecordingBatch> batch;
  {
    const Scope scope("load");
    batch = loader_.next();
  }
  slot.after = loader_.state();
  slot.is_end = !batch;
  if (slot.is_end) return;
  const Scope scope("copy");
  slot.wait_for_copy();
  slot.held = std::move(batch);
  const auto place = [&] { slot.batch = slot.placer.place(*slot.held); };
  if (slot.stream)
    slot.on_stream(place);
  else
    place();
}

const Batch* WindowFeed::next() {
  return ahead_->next([&](Slot& slot) { fetch(slot); });
}

const LoaderState& WindowFeed::state() const { return ahead_->state(); }

void WindowFeed::seek(const LoaderState& state) {
  loader_.seek(state);
  ahead_->seek(state);
}

std::vector<uint64_t> WindowFeed::samples(uint64_t epoch, uint64_t position) const {
  SessionOrderSettings of_all = loader_.order().settings();
  of_all.rank = 0;
  of_all.world = 1;
  std::vector<uint64_t> windows;
  SessionOrder(first_windows(session_.training), of_all).batch(epoch, position, windows);
  return windows;
}

void visit_windows(const RecordingSession& session, const Windows& windows,
                   std::vector<uint64_t> numbers,
                   const std::function<void(const DeviceWindows& batch)>& take,
                   Progress& progress) {
  if (numbers.empty()) return;
  const at::NoGradGuard guard;
  const uint64_t batch = uint64_t(session.config.train.batch);
  RecordingSourceOptions options = source_options(session, batch);
  options.selection = std::move(numbers);
  const RecordingSource source(windows, session.frames, options);
  Loader<RecordingSource> loader(source, {.order = {.global_batch = batch, .shuffled = false},
                                          .threads = 1,
                                          .prefetch = source.prefetch(1)});
  WindowPlacer placer(session);
  progress.begin("windows", source.size(), "windows");
  uint64_t done = 0;
  while (const auto loaded = loader.next()) {
    throw_if_stopped();
    take(placer.place(*loaded));
    if (session.device.is_cuda())  // the placer's buffers are used again
      c10::impl::VirtualGuardImpl(session.device.type()).getStream(session.device).synchronize();
    progress.advance(done += loaded->size());
  }
  progress.end();
}

void predict_windows(const RecordingSession& session, const Windows& windows,
                     std::vector<uint64_t> numbers, const TakeRates& take, Progress& progress) {
  visit_windows(
      session, windows, std::move(numbers),
      [&](const DeviceWindows& batch) { take(batch, session.model->forward(batch.input)); },
      progress);
}

std::vector<uint64_t> spread_windows(const Windows& windows, uint32_t session, uint64_t most) {
  const auto [first, last] = windows.of_session(session);
  const uint64_t count = std::min(most, last - first);
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < count; ++i) numbers.push_back(first + (last - first) * i / count);
  return numbers;
}

}  // namespace lacuna
