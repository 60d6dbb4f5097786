#include "lacuna/train/recording/recording_task.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/recording_scores.h"
#include "lacuna/run/json_file.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/recording/evaluate_recording.h"
#include "lacuna/train/recording/recording_order.h"
#include "lacuna/train/session.h"

namespace lacuna {
namespace {

constexpr const char* kWindowsFormat = "lacuna.windows";

Json windows_of_parts(const RecordingSession& session) {
  Json parts = Json::object();
  for (const auto& [part, of_part] : session.parts) {
    const Windows& windows = part == Part::train ? session.training : of_part;
    std::vector<uint64_t> numbers;
    for (const WindowRun& run : windows.runs())
      numbers.insert(numbers.end(), {run.session, run.segment, run.begin, run.end, run.step});
    parts[std::string(name(part))] = {{"windows", windows.size()},
                                      {"hash", hex(hash64(std::as_bytes(std::span(numbers))))}};
  }
  return parts;
}

fs::path windows_file(const Run& run) { return run.path() / "windows.json"; }

// [sessions][units]
using AllSums = std::vector<std::vector<UnitSums>>;

AllSums empty_sums(const RecordingSession& session) {
  AllSums sums;
  for (const auto& readout : session.model->shape().sessions)
    sums.emplace_back(size_t(readout.units));
  return sums;
}

void add_rates(const DeviceWindows& batch, const std::vector<at::Tensor>& rates,
               const std::vector<SessionScale>& scales, AllSums& sums) {
  for (size_t s = 0; s < rates.size(); ++s) {
    const auto on_host = [](const at::Tensor& x) {
      return x.to(at::kCPU, at::kFloat).contiguous();
    };
    const at::Tensor rate = on_host(rates[s]), count = on_host(batch.counts[s]),
                     valid = on_host(batch.validity[s]);
    const float *r = rate.const_data_ptr<float>(), *c = count.const_data_ptr<float>(),
                *v = valid.const_data_ptr<float>();
    auto& units = sums[size_t(batch.input.sessions[s])];
    const auto& means = scales[size_t(batch.input.sessions[s])].mean_counts;
    for (int64_t i = 0; i < rate.numel(); ++i)
      if (const size_t u = size_t(i) % units.size(); v[i] > 0)
        units[u].add(r[i], c[i], compared_rate(means[u]));
  }
}

// The sums of all ranks.
void sum_over_ranks(Group& group, at::Device device, AllSums& sums) {
  if (group.is_alone()) return;
  constexpr int64_t kNumbers = sizeof(UnitSums) / sizeof(double);
  for (std::vector<UnitSums>& units : sums) {
    auto* numbers = reinterpret_cast<double*>(units.data());
    const at::Tensor host = at::from_blob(numbers, {int64_t(units.size()) * kNumbers}, at::kDouble);
    const at::Tensor all = host.to(device, /*non_blocking=*/false, /*copy=*/true);
    group.sum(all);
    host.copy_(all);
  }
}

}  // namespace

std::unique_ptr<Task> open_recording_task(const OpenTask& request) {
  const Config& config = request.config;
  if (request.run && !fs::exists(config.recording.path))
    throw Error(
        "there is no recording {}, which {} is trained on; if it has moved: `lacuna train {} --set "
        "recording=DIRECTORY --resume --out {}`",
        config.recording.path.string(), request.run->path().string(),
        request.run->config().string(), request.run->path().string());
  const bool goes_on = request.run && request.run->has_checkpoint("last");
  return std::make_unique<RecordingTask>(
      open_recording_session(config, request.note, request.progress, request.group, goes_on));
}

std::string RecordingTask::words() const {
  return fmt::format("{} with {} parameters on {}: {} windows of {} sessions, rung {}",
                     session_.config.model["name"].as<std::string>(),
                     with_commas(uint64_t(session_.model->parameter_count())),
                     session_.device.str(), with_commas(session_.training.size()),
                     session_.sessions.size(), name(session_.frames.rung()));
}

std::unique_ptr<Feed> RecordingTask::training() { return std::make_unique<WindowFeed>(session_); }

at::Tensor RecordingTask::loss(const Batch& given, uint64_t /*epoch*/) {
  const auto& batch = static_cast<const DeviceWindows&>(given);  // which our own feeds give out
  PoissonLoss loss;
  if (batch.size() == 0) {  // a rank without windows does what the others do
    const auto rates = session_.model->parameters().at(0).options().requires_grad(false);
    loss = {at::zeros({}, rates), at::zeros({}, rates)};
    for (const at::Tensor& parameter : session_.model->parameters())
      if (parameter.requires_grad()) loss.sum = loss.sum + 0 * parameter.sum();
  } else {
    loss = poisson_loss(session_.model->forward(batch.input), batch.counts, batch.validity);
  }
  if (session_.group->is_alone()) return loss.sum / loss.valid.clamp_min(1);
  const at::Tensor valid = loss.valid.detach().clone();
  session_.group->sum(valid);
  return loss.sum / valid.clamp_min(1) * double(session_.group->world());
}

std::vector<Score> RecordingTask::scores() const {
  return {{"bits_per_spike", "bits/spike", /*higher_is_better=*/true},
          {"correlation", "correlation", /*higher_is_better=*/true}};
}

ValidationScores RecordingTask::validate() {
  ValidationScores scores;
  if (!session_.has(Part::validation)) return scores;
  const Windows& windows = session_.part(Part::validation);
  const std::vector<uint64_t> all =
      fixed_windows(first_windows(windows), session_.config.recording.validation_windows);
  std::vector<uint64_t> own;
  for (size_t i = 0; i < all.size(); ++i)
    if (i % session_.group->world() == session_.group->rank()) own.push_back(all[i]);
  AllSums sums = empty_sums(session_);
  session_.model->eval();
  predict_windows(session_, windows, own,
                  [&](const DeviceWindows& batch, const std::vector<at::Tensor>& rates) {
                    add_rates(batch, rates, session_.scales, sums);
                  });
  sum_over_ranks(*session_.group, session_.device, sums);
  double bits = 0, correlation = 0, with_bits = 0, with_correlation = 0;
  for (size_t s = 0; s < sums.size(); ++s) {
    const SessionScores one = session_scores(sums[s]);
    scores.parts[session_.model->shape().sessions[s].session] = {
        {"count", one.rows},
        {"spikes", one.spikes},
        {"bits_per_spike", one.bits_per_spike},
        {"correlation", one.correlation}};
    if (std::isfinite(one.bits_per_spike)) bits += one.bits_per_spike, ++with_bits;
    if (std::isfinite(one.correlation)) correlation += one.correlation, ++with_correlation;
  }
  scores.values = {with_bits > 0 ? bits / with_bits : kNotDefined,
                   with_correlation > 0 ? correlation / with_correlation : kNotDefined};
  return scores;
}

void RecordingTask::evaluate(const Run& run, const Note& note, Progress& progress) {
  const std::string checkpoint = choose_checkpoint(run, "");
  const fs::path file = run.checkpoint(checkpoint);
  load_weights(read_checkpoint(file), file, *session_.model);
  evaluate_recording(session_, {.checkpoint = checkpoint, .out = run.path()}, note, progress);
}

Json RecordingTask::description() const {
  uint64_t units = 0;
  Json names = Json::array();
  for (const auto& readout : session_.model->shape().sessions) {
    units += uint64_t(readout.units);
    names.push_back(readout.session);
  }
  Json windows = Json::object();
  for (const auto& [part, of_part] : session_.parts)
    windows[std::string(name(part))] = of_part.size();
  windows["train"] = session_.training.size();
  return {{"recording",
           {{"path", fs::absolute(session_.recording.path()).string()},
            {"fingerprint", session_.fingerprint.to_json()},
            {"sessions", names},
            {"units", units},
            {"windows", windows},
            {"bytes", session_.recording.bytes()},
            {"rung", name(session_.frames.rung())}}}};
}

void RecordingTask::resume(const Safetensors& checkpoint, const fs::path& file) {
  take_up(checkpoint, file, session_);
}

void RecordingTask::check(const Run* trained, const Note& /*note*/) {
  if (session_.config.train.patience != 0 && !session_.has(Part::validation))
    throw Error("train.patience is {}, but split '{}' has no validation windows; set it to 0",
                session_.config.train.patience, session_.config.split);
  if (session_.config.evaluate.baselines) check_evaluation(session_);
  (void)training_order(session_);  // what is wrong with it shows before there is a run
  if (!trained || !fs::exists(windows_file(*trained))) return;
  const fs::path file = windows_file(*trained);
  const Json then =
      read_json_file(file, kWindowsFormat, "train anew",
                     [](const SealedJson& sealed) { return sealed.json.at("parts"); });
  const Json now = windows_of_parts(session_);
  for (const Part part : {Part::train, Part::validation, Part::test}) {
    const std::string key(name(part));
    const Json before = then.value(key, Json()), here = now.value(key, Json());
    if (before == here) continue;
    const auto count = [](const Json& json) {
      return json.is_null() ? uint64_t(0) : json.at("windows").get<uint64_t>();
    };
    throw Error(
        "the {} windows of split '{}' are not those that {} was begun with ({} then, {} now): the "
        "split or the recording has changed; use the same, or train anew",
        key, session_.config.split, trained->path().string(), with_commas(count(before)),
        with_commas(count(here)));
  }
}

void RecordingTask::keep(const Run& run) const {
  write_sealed_json(windows_file(run), {{"format", kWindowsFormat},
                                        {"version", 1},
                                        {"split", session_.config.split},
                                        {"parts", windows_of_parts(session_)}});
}

Json RecordingTask::describe(std::span<const uint64_t> samples) const {
  Json list = Json::array();
  for (const uint64_t sample : samples) {
    const Window window = session_.training.at(sample);
    const Session& session = session_.recording.sessions()[window.session];
    list.push_back({{"session", session.name},
                    {"segment", session.segments[window.segment].name},
                    {"t", window.t}});
  }
  return {{"windows", list}};
}

}  // namespace lacuna
