#include "lacuna/train/recording/evaluate_recording.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/trials.h"
#include "lacuna/run/evaluation/linear_fields.h"
#include "lacuna/store/npy.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/recording/window_feed.h"

namespace lacuna {
namespace {

constexpr uint64_t kFittedWindows = 16384;  // of a session, for the linear fields

at::Tensor to_host(const at::Tensor& x) { return x.to(at::kCPU, at::kFloat).contiguous(); }

void append(std::vector<float>& out, const at::Tensor& tensor) {
  const at::Tensor host = to_host(tensor);
  out.insert(out.end(), host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel());
}

// Features of the linear fields: means over blocks, the last of an axis over what is there.
at::Tensor coarse(const at::Tensor& stimulus, const CoarseWindow& blocks) {
  const at::Tensor x = pixels_to_numbers(stimulus, at::kFloat);
  const std::vector<int64_t> kernel = {int64_t(blocks.lag_block), int64_t(blocks.pixel_block),
                                       int64_t(blocks.pixel_block)};
  return at::avg_pool3d(x.unsqueeze(1), kernel, kernel, 0, /*ceil_mode=*/true,
                        /*count_include_pad=*/false)
      .flatten(1);
}

// The trial, stimulus and offset of every window of a segment, found once.
class RowFinder {
 public:
  RowFinder(const Recording& recording, const WindowSettings& settings)
      : recording_(recording), settings_(settings) {}

  PredictedRow find(const Window& window) {
    enter(window.session, window.segment);
    const auto after =
        std::upper_bound(stretches_.begin(), stretches_.end(), window.t,
                         [](uint64_t t, const Stretch& stretch) { return t < stretch.begin; });
    LACUNA_ASSERT(after != stretches_.begin());
    const Stretch& stretch = *(after - 1);
    // Without trials, a stretch without a gap is what is drawn.
    const int64_t number = stretch.trial >= 0 ? stretch.trial : -2 - (after - stretches_.begin());
    return {.segment = window.segment,
            .t = window.t,
            .trial = number,
            .stimulus = stimuli_.empty() ? -1 : stimuli_.at(window.t),
            .offset = (window.t - stretch.begin) / settings_.step};
  }

 private:
  void enter(uint32_t session, uint32_t segment) {
    if (place_ == std::pair(int64_t(session), int64_t(segment))) return;
    place_ = {session, segment};
    const Session& in = recording_.sessions()[session];
    stretches_ = find_stretches(in, in.segments[segment], settings_.most_gap);
    const Field* field = in.segments[segment].find(FieldRole::stimulus_id);
    stimuli_ = field ? read_whole_numbers(*field) : std::vector<int64_t>();
  }

  Recording recording_;
  WindowSettings settings_;
  std::pair<int64_t, int64_t> place_ = {-1, -1};
  std::vector<Stretch> stretches_;
  std::vector<int64_t> stimuli_;
};

CoarseWindow coarse_window(const RecordingSession& session) {
  const RecordingShape& shape = session.model->shape();
  return CoarseWindow::of(uint64_t(shape.lags), uint64_t(shape.height), uint64_t(shape.width));
}

LinearFields fit_session(const RecordingSession& session, int64_t s, Progress& progress) {
  const Windows& training = session.part(Part::train);
  const uint32_t number = session.sessions[size_t(s)];
  const CoarseWindow blocks = coarse_window(session);
  std::vector<float> x, counts, valid;
  std::vector<int64_t> trial;
  RowFinder finder(session.recording, session.config.recording.windows);
  visit_windows(
      session, training, spread_windows(training, number, kFittedWindows),
      [&](const DeviceWindows& batch) {
        append(x, coarse(batch.input.stimulus, blocks));
        append(counts, batch.counts.at(0));
        append(valid, batch.validity.at(0));
        for (const uint64_t window : batch.windows) {
          const PredictedRow row = finder.find(training.at(window));
          trial.push_back(row.trial * 1024 + row.segment);
        }
      },
      progress);
  const std::vector<uint8_t> validity(valid.begin(), valid.end());
  return fit_linear_fields({.features = blocks.features(),
                            .units = uint64_t(session.model->shape().sessions[size_t(s)].units),
                            .x = x,
                            .counts = counts,
                            .validity = validity,
                            .trial = trial});
}

// What several ranks predict of a session: each a share of its rows, and all get all of them.
class SharedRows {
 public:
  SharedRows(Group& group, uint64_t rows, uint64_t columns)
      : group_(group), rows_(rows), columns_(columns) {}

  // The rows that are this rank's, of all in order.
  std::vector<uint64_t> own(const std::vector<uint64_t>& all) const {
    std::vector<uint64_t> mine;
    for (uint64_t i = group_.rank(); i < all.size(); i += group_.world()) mine.push_back(all[i]);
    return mine;
  }
  // values: [own rows, columns]; becomes [rows, columns].
  void complete(std::vector<float>& values) const {
    if (group_.is_alone()) return;
    const int64_t width = int64_t(columns_), world = group_.world();
    const at::Tensor all = at::zeros({int64_t(rows_), width}, at::kFloat);
    const int64_t count = int64_t(values.size()) / width;
    if (count > 0)
      all.slice(0, group_.rank(), int64_t(rows_), world)
          .copy_(at::from_blob(values.data(), {count, width}, at::kFloat));
    group_.sum(all);
    values.assign(all.const_data_ptr<float>(), all.const_data_ptr<float>() + all.numel());
  }

 private:
  Group& group_;
  uint64_t rows_, columns_;
};

SessionPredictions predict_session(const RecordingSession& session, const Windows& windows,
                                   int64_t s, const LinearFields* linear, Progress& progress) {
  const uint32_t number = session.sessions[size_t(s)];
  const Session& in = session.recording.sessions()[number];
  SessionPredictions result;
  result.session = in.name;
  result.subject = in.subject;
  result.rate = in.rate / double(session.config.recording.windows.step);
  result.units = session.unit_names(s);
  for (const Segment& segment : in.segments) result.segments.push_back(segment.name);
  result.mean = session.scales[size_t(s)].mean_counts;
  result.predictors.push_back({"model", {}});
  const CoarseWindow blocks = coarse_window(session);
  std::vector<float> linear_rates, valid;
  RowFinder finder(session.recording, session.config.recording.windows);
  const auto all = spread_windows(windows, number, std::numeric_limits<uint64_t>::max());
  for (const uint64_t window : all) result.rows.push_back(finder.find(windows.at(window)));
  const SharedRows shared(*session.group, all.size(), result.units.size());
  predict_windows(
      session, windows, shared.own(all),
      [&](const DeviceWindows& batch, const std::vector<at::Tensor>& rates) {
        append(result.predictors[0].rates, rates.at(0));
        append(result.counts, batch.counts.at(0));
        append(valid, batch.validity.at(0));
        if (!linear) return;
        std::vector<float> x;
        append(x, coarse(batch.input.stimulus, blocks));
        const std::vector<float> more = linear->predict(x);
        linear_rates.insert(linear_rates.end(), more.begin(), more.end());
      },
      progress);
  for (std::vector<float>* values : {&result.predictors[0].rates, &result.counts, &valid})
    shared.complete(*values);
  if (linear) shared.complete(linear_rates);
  result.validity.assign(valid.begin(), valid.end());
  if (!linear) return result;
  SessionPredictions::Predictor mean = {"mean rate", {}};
  for (uint64_t r = 0; r < result.rows.size(); ++r)
    for (const double rate : result.mean) mean.rates.push_back(float(compared_rate(rate)));
  result.predictors.push_back(std::move(mean));
  result.predictors.push_back({"linear field", std::move(linear_rates)});
  return result;
}

void write_fields(const RecordingSession& session, const fs::path& out, Progress& progress,
                  RecordingEvaluation& evaluation) {
  fs::create_directories(out / "fields");
  progress.begin("learned fields", session.sessions.size(), "sessions");
  for (size_t s = 0; s < session.sessions.size(); ++s) {
    const LearnedFields fields = learned_fields(session, int64_t(s));
    const std::string& name = session.model->shape().sessions[s].session;
    write_npy(out / "fields" / (name + ".spatial.npy"), to_array(fields.spatial));
    write_npy(out / "fields" / (name + ".temporal.npy"), to_array(fields.temporal));
    evaluation.field_sessions.push_back(name);
    progress.advance(s + 1);
  }
  progress.end();
}

// The windows of a segment.
Windows windows_of(const RecordingSession& session, uint32_t number, uint32_t segment) {
  std::vector<WindowRun> runs;
  for (const WindowRun& run : session.windows.runs())
    if (run.session == number && run.segment == segment) runs.push_back(run);
  return session.windows.only(runs);
}

// The windows of this rank, which takes whole batches in turn with the others: each is the batch
// that one process would make, so that it is rounded alike.
std::vector<uint64_t> own_batches(const RecordingSession& session,
                                  const std::vector<uint64_t>& windows) {
  const uint64_t batch = uint64_t(session.config.train.batch);
  std::vector<uint64_t> own;
  for (size_t i = 0; i < windows.size(); ++i)
    if (i / batch % session.group->world() == session.group->rank()) own.push_back(windows[i]);
  return own;
}

// [frames, units] of a segment that has these windows, NaN where there is none; on every rank.
std::vector<float> segment_rates(const RecordingSession& session, const Windows& windows,
                                 uint32_t number, uint64_t frames, uint64_t units,
                                 Progress& progress) {
  const auto all = spread_windows(windows, number, std::numeric_limits<uint64_t>::max());
  const auto row = [&](uint64_t window) { return int64_t(windows.at(window).t * units); };
  // Rows of another rank's windows stay 0 until they are summed.
  std::vector<float> rates(frames * units, std::numeric_limits<float>::quiet_NaN());
  for (const uint64_t window : all) std::fill_n(rates.begin() + row(window), units, 0.0f);
  predict_windows(
      session, windows, own_batches(session, all),
      [&](const DeviceWindows& batch, const std::vector<at::Tensor>& found) {
        std::vector<float> values;
        append(values, found.at(0));
        for (size_t b = 0; b < batch.windows.size(); ++b)
          std::copy_n(values.begin() + int64_t(b * units), units,
                      rates.begin() + row(batch.windows[b]));
      },
      progress);
  session.group->sum(at::from_blob(rates.data(), {int64_t(rates.size())}, at::kFloat));
  return rates;
}

void make_empty_folder(const fs::path& out) {
  if (fs::exists(out) && (!fs::is_directory(out) || !fs::is_empty(out)))
    throw Error("{} holds something already; choose another --out", out.string());
  fs::create_directories(out);
}

}  // namespace

void check_evaluation(const RecordingSession& session) {
  for (const std::string& part : session.config.evaluate.parts) part_from_name(part);
}

RecordingEvaluation evaluate_recording(const RecordingSession& session,
                                       const EvaluateRecording& request, const Note& note,
                                       Progress& progress) {
  const EvaluateOptions& options = session.config.evaluate;
  session.model->eval();
  RecordingEvaluation evaluation = {.split = session.config.split,
                                    .checkpoint = request.checkpoint,
                                    .bootstrap = int(options.bootstrap)};
  std::vector<LinearFields> linear;
  if (options.baselines && !options.parts.empty())
    for (size_t s = 0; s < session.sessions.size(); ++s)
      linear.push_back(fit_session(session, int64_t(s), progress));
  for (const std::string& name : options.parts) {
    const Part part = part_from_name(name);
    if (!session.has(part)) {
      evaluation.notes.push_back(
          fmt::format("split '{}' has no {} windows: not evaluated", session.config.split, name));
      continue;
    }
    PartEvaluator evaluator(name, int(options.bootstrap));
    const Windows& windows = session.part(part);
    for (size_t s = 0; s < session.sessions.size(); ++s) {
      const auto [first, last] = windows.of_session(session.sessions[s]);
      const std::string& of = session.model->shape().sessions[s].session;
      if (first == last) {
        evaluation.notes.push_back(
            fmt::format("session '{}' has no {} windows: not evaluated there", of, name));
        continue;
      }
      const SessionPredictions predicted = predict_session(
          session, windows, int64_t(s), linear.empty() ? nullptr : &linear[s], progress);
      if (session.group->is_first()) evaluator.add(predicted);
    }
    if (!session.group->is_first()) continue;
    evaluation.parts.push_back(evaluator.finish());
  }
  if (!session.group->is_first()) return evaluation;
  for (const std::string& words : evaluation.notes) note(words);
  if (!evaluation.parts.empty())
    for (const RecordingScore& score : evaluation.parts[0].scores)
      evaluation.predictors.push_back(score.predictor);
  throw_if_stopped();
  if (!options.parts.empty()) write_fields(session, request.out, progress, evaluation);
  write_recording_evaluation(request.out, evaluation);
  return evaluation;
}

LearnedFields learned_fields(const RecordingSession& session, int64_t s, uint64_t count) {
  const RecordingShape& shape = session.model->shape();
  const Windows& training = session.part(Part::train);
  const uint32_t number = session.sessions[size_t(s)];
  const int64_t units = shape.sessions[size_t(s)].units, pixels = shape.height * shape.width;
  at::Tensor fields = at::zeros({units, shape.lags, pixels}, at::kFloat);
  visit_windows(
      session, training, spread_windows(training, number, count), [&](const DeviceWindows& batch) {
        const at::AutoGradMode grad(true);
        WindowInput input = batch.input;
        const at::Tensor x =
            pixels_to_numbers(input.stimulus, at::kFloat).detach().clone().requires_grad_(true);
        input.stimulus = x;
        const at::Tensor drive = session.model->drive(input).at(0);  // [b, units]
        for (int64_t u = 0; u < units; ++u) {
          throw_if_stopped();
          const auto gradient = torch::autograd::grad({drive.select(1, u).sum()}, {x}, {},
                                                      /*retain_graph=*/true);
          fields.select(0, u).add_(to_host(gradient[0].sum(0)).view({shape.lags, pixels}));
        }
      });
  const at::NoGradGuard guard;
  fields.div_(double(std::max<uint64_t>(count, 1)));
  // The leading pair of singular vectors, by power iteration.
  at::Tensor temporal = at::linalg_vector_norm(fields, 2, {2});  // [units, lags]
  at::Tensor spatial;
  for (int i = 0; i < 30; ++i) {
    temporal =
        temporal / at::linalg_vector_norm(temporal, 2, {1}, /*keepdim=*/true).clamp_min(1e-30);
    spatial = at::bmm(temporal.unsqueeze(1), fields).squeeze(1);  // [units, pixels]
    const auto unit = spatial / at::linalg_vector_norm(spatial, 2, {1}, true).clamp_min(1e-30);
    temporal = at::bmm(fields, unit.unsqueeze(2)).squeeze(2);
  }
  temporal = temporal / at::linalg_vector_norm(temporal, 2, {1}, true).clamp_min(1e-30);
  const auto peak = temporal.gather(1, temporal.abs().argmax(1, /*keepdim=*/true));
  const auto sign = at::where(peak.lt(0), -1.0, 1.0).to(at::kFloat);
  return {(spatial * sign).view({units, shape.height, shape.width}).contiguous(),
          (temporal * sign).contiguous()};
}

PredictedRates predict_rates(const RecordingSession& session, const std::string& checkpoint,
                             const fs::path& out, Progress& progress) {
  const bool is_first = session.group->is_first();
  if (is_first) make_empty_folder(out);
  session.model->eval();
  PredictedRates done;
  Json files = Json::array();
  for (size_t s = 0; s < session.sessions.size(); ++s) {
    const uint32_t number = session.sessions[s];
    const Session& in = session.recording.sessions()[number];
    const std::vector<std::string> units = session.unit_names(int64_t(s));
    for (uint32_t g = 0; g < in.segments.size(); ++g) {
      const Segment& segment = in.segments[g];
      const Windows windows = windows_of(session, number, g);
      if (windows.size() == 0 && !segment.find(session.config.recording.windows.counts)) continue;
      std::vector<float> rates =
          segment_rates(session, windows, number, segment.frames, units.size(), progress);
      const std::string file = in.name + "." + segment.name + ".rates.npy";
      if (is_first)
        write_npy(out / file, Array::from(std::move(rates), {segment.frames, units.size()}));
      files.push_back({{"session", in.name},
                       {"segment", segment.name},
                       {"file", file},
                       {"frames", segment.frames},
                       {"windows", windows.size()},
                       {"units", units}});
      done.windows += windows.size();
      ++done.files;
    }
  }
  if (is_first)
    write_sealed_json(out / "rates.json", {{"format", "lacuna.rates"},
                                           {"version", 1},
                                           {"checkpoint", checkpoint},
                                           {"counts_a_row", session.config.recording.windows.step},
                                           {"files", files}});
  return done;
}

}  // namespace lacuna
