#include "lacuna/measure/measure_recording_rungs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/measure/one_batch.h"
#include "lacuna/measure/peak_memory.h"
#include "lacuna/train/recording/recording_order.h"
#include "lacuna/train/recording/recording_task.h"

namespace lacuna {
namespace {

// The store of a rung that needs one, for one visit.
class TemporaryFrames {
 public:
  TemporaryFrames(const Recording& slice, Rung rung, const LaggedField& stimulus,
                  const fs::path& folder) {
    if (!needs_store(rung)) return;
    FrameStoreSettings settings;
    settings.form = rung.form;
    settings.field = stimulus.field;
    settings.rows_per_chunk = stimulus.lags;
    path_ = folder / "frames";
    if (prepare_frames(slice, settings, path_, {}, Progress::none()).is_stopped) throw Stopped();
  }
  ~TemporaryFrames() {
    std::error_code ignored;  // the folder goes with its workshop
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryFrames(const TemporaryFrames&) = delete;
  TemporaryFrames& operator=(const TemporaryFrames&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<float> predict_some(const RecordingSession& session, uint64_t count) {
  const Windows& windows = session.part(Part::train);
  std::vector<float> rates;
  session.model->eval();
  predict_windows(session, windows, fixed_windows(first_windows(windows), count),
                  [&](const DeviceWindows&, const std::vector<at::Tensor>& found) {
                    for (const at::Tensor& of_session : found) {
                      const at::Tensor host = of_session.to(at::kCPU, at::kFloat).contiguous();
                      const float* first = host.const_data_ptr<float>();
                      rates.insert(rates.end(), first, first + host.numel());
                    }
                  });
  return rates;
}

}  // namespace

struct RecordingRungTrainer::Start {
  Config config;
  at::Device device = at::kCPU;
  std::vector<SessionScale> scales;
  std::vector<at::Tensor> weights;
  uint64_t parameters = 0;

  // A session on a rung, with the weights that all of them start from.
  RecordingSession open(const std::string& rung, const fs::path& store) const {
    Config on_rung = config;
    on_rung.recording.rung = recording_rung_from_name(rung);
    on_rung.store = store;
    const auto silent = [](const std::string&) {};
    RecordingSession session =
        open_recording_session(on_rung, silent, Progress::none(), Group::alone(), /*goes_on=*/true);
    session.scales = scales;
    const at::NoGradGuard guard;
    const std::vector<at::Tensor> parameters = session.model->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(weights[i]);
    return session;
  }

  void visit(const std::string& name, const fs::path& store, const RecordingRungSettings& settings,
             RungTraining& result) const {
    const PeakMemory memory(device);
    const bool is_ready = name == kReadyBatch;
    RecordingTask task(open(is_ready ? "disk:u8" : name, store));
    result.parameters = parameters;
    {
      Loop loop(task, /*may_record=*/true, is_ready ? ready_batch(task) : nullptr);
      loop.run(warm_steps(device));
      time_steps(loop, settings.steps, device, result.ms);
    }
    uint64_t& peak = device.is_cuda() ? result.device_bytes : result.host_bytes;
    peak = std::max(peak, memory.bytes());
    if (!is_ready && result.predicted.empty())
      result.predicted = predict_some(task.session(), settings.predict);
  }
};

Recording with_ladder_split(const Recording& slice) {
  RecordingSplit split;
  split.name = "ladder";
  uint64_t rows = 0;
  for (const Session& session : slice.sessions())
    for (const Segment& segment : session.segments) {
      split.segments.push_back({session.name, segment.name, rows, segment.frames});
      rows += segment.frames;
    }
  split.parts = Array::from(std::vector<uint8_t>(rows, uint8_t(Part::train)));
  split.how = {{"command", "lacuna bench ladder"}};
  add_split(slice.path(), split);
  return Recording::open(slice.path());
}

RecordingRungTrainer::RecordingRungTrainer(const Config& config, RecordingRungSettings settings,
                                           const Note& note)
    : settings_(std::move(settings)) {
  const auto start = std::make_shared<Start>();
  // A slice is all for training: that its other parts are empty is no news.
  const auto tell = [&](const std::string& words) {
    if (!words.starts_with("split 'ladder' has no window")) note(words);
  };
  const RecordingSession session = open_recording_session(config, tell);
  start->config = session.config;
  start->device = session.device;
  start->scales = session.scales;
  start->parameters = uint64_t(session.model->parameter_count());
  for (const at::Tensor& parameter : session.model->parameters())
    start->weights.push_back(parameter.detach().clone());
  start_ = start;
}

RecordingRungTrainer::~RecordingRungTrainer() = default;
at::Device RecordingRungTrainer::device() const { return start_->device; }
uint64_t RecordingRungTrainer::parameters() const { return start_->parameters; }

std::map<std::string, RungTraining> RecordingRungTrainer::train(
    const std::vector<std::string>& rungs, Progress& progress) const {
  const Recording slice = Recording::open(start_->config.recording.path);
  const LaggedField& stimulus = start_->config.recording.windows.stimulus;
  std::vector<std::string> order = rungs;
  order.insert(order.begin(), kReadyBatch);
  std::map<std::string, RungTraining> trained;
  uint64_t visits = 0;
  progress.begin("training on the rungs", order.size() * settings_.rounds, "visits");
  for (uint64_t round = 0; round < settings_.rounds; ++round) {
    for (const std::string& name : order) {
      throw_if_stopped();
      const Rung rung = recording_rung_from_name(name == kReadyBatch ? "disk:u8" : name);
      const TemporaryFrames store(slice, rung, stimulus, settings_.folder);
      start_->visit(name, store.path(), settings_, trained[name]);
      progress.advance(++visits);
    }
    std::ranges::reverse(order);
  }
  progress.end();
  return trained;
}

}  // namespace lacuna
