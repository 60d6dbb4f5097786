// RecordingLoader: batches of windows of a recording, made ahead of time by C++ threads.
#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/ladder/recording_source.h"
#include "lacuna/ladder/window_memory.h"
#include "lacuna/load/session_order.h"
#include "lacuna/run/recording_config.h"
#include "loader_front.h"

namespace lacuna::python {
namespace {

using RecordingBatches = Loader<RecordingSource, SessionOrder>;
using RecordingArrays = BatchArrays<RecordingBatch>;

// {"stimulus", "lags", "inputs", "counts", "validity", "rows", "step", "sessions", "segments",
// "units"}, all of them given.
WindowSettings window_settings(const Json& json) {
  WindowSettings settings;
  settings.stimulus = {.field = json.at("stimulus"), .lags = json.at("lags")};
  for (const Json& input : json.at("inputs"))
    settings.inputs.push_back(lagged_field_from_text(input.get<std::string>()));
  settings.counts = json.at("counts");
  settings.validity = json.at("validity");
  settings.step = json.at("step");
  settings.sessions = json.at("sessions");
  settings.segments = json.at("segments");
  settings.units = json.at("units");
  return with_target_rows(settings, json.at("rows"));
}

Windows find_windows(const Recording& recording, const Json& json) {
  const Windows all(recording, window_settings(json));
  const std::string split = json.at("split");
  return split.empty() ? all
                       : all.of_part(recording.split(split), json.at("part").get<std::string>());
}

// Weights [sessions] from those of names; empty where none are given.
std::vector<double> named_weights(const Windows& windows, const std::vector<uint64_t>& first,
                                  const Json& weights) {
  std::vector<std::pair<std::string, double>> given;
  for (const auto& [name, weight] : weights.items()) given.emplace_back(name, weight.get<double>());
  if (given.empty()) return {};
  std::vector<std::string> names, subjects;
  for (const Session& session : windows.recording().sessions()) {
    names.push_back(session.name);
    subjects.push_back(session.subject);
  }
  return weights_of_names(given, names, subjects, first);
}

SessionOrderSettings order_settings(const Windows& windows, const std::vector<uint64_t>& first,
                                    const Json& json) {
  const std::string mix = json.at("order");
  return {.global_batch = json.at("batch"),
          .seed = json.at("seed"),
          .shuffled = json.at("shuffle"),
          .mix = session_mix_from_name(mix == "weights" ? "weighted" : mix),
          .weights = named_weights(windows, first, json.at("weights")),
          .one_session = !json.at("mixed").get<bool>(),
          .steps = json.at("steps"),
          .rank = json.at("rank"),
          .world = json.at("world")};
}

// How often each session is drawn: what a tier keeps in memory.
std::vector<double> shares_of(const std::vector<uint64_t>& first,
                              const SessionOrderSettings& order) {
  if (order.mix == SessionMix::weighted) return order.weights;
  std::vector<double> shares;
  for (size_t s = 0; s + 1 < first.size(); ++s) {
    const auto count = double(first[s + 1] - first[s]);
    shares.push_back(order.mix == SessionMix::balanced ? double(count > 0) : count);
  }
  return shares;
}

// What the batches of this loader take beside the frames.
uint64_t memory_of_batches(const Windows& windows, Rung rung, DType cast,
                           const SessionOrderSettings& order, uint64_t threads) {
  const LaggedField& stimulus = windows.settings().stimulus;
  uint64_t pixels = 0;
  for (const WindowRun& run : windows.runs())
    pixels = windows.recording()
                 .sessions()[run.session]
                 .segments[run.segment]
                 .field(stimulus.field)
                 .columns();
  return WindowMemory{.batch = order.global_batch,
                      .window_bytes = stimulus.lags * pixels * item_size(moved_dtype(rung, cast)),
                      .ranks = order.world,
                      .threads = threads}
      .training_bytes();
}

FramesOptions frames_options(const Windows& windows, const std::vector<uint64_t>& first,
                             const SessionOrderSettings& order, const Json& json,
                             uint64_t threads) {
  const Rung asked = recording_rung_from_name(json.at("rung").get<std::string>());
  if (is_resident(asked))
    throw Error(
        "rung device:resident is for `lacuna train`, which gathers windows on the GPU; here use "
        "ram:u8@device");
  const Rung rung = with_expansion(asked, json.at("has_gpu"));
  const DType cast = dtype_from_name(json.at("dtype").get<std::string>());
  return {.rung = rung,
          .field = windows.settings().stimulus.field,
          .store = json.at("store").get<std::string>(),
          .cast = cast,
          .hot_bytes = json.at("hot"),
          .shares = shares_of(first, order),
          .sessions = windows.settings().sessions,
          .segments = windows.settings().segments,
          .beside_bytes = memory_of_batches(windows, rung, cast, order, threads)};
}

class RecordingLoader : public LoaderFront<RecordingBatches> {
 public:
  RecordingLoader(const Recording& recording, const nb::object& settings, int threads,
                  std::optional<uint64_t> prefetch, const nb::object& progress) {
    const Json json = from_python(settings);
    run_long(progress, [&](Progress& p) {
      const Windows windows = find_windows(recording, json);
      // The source knows the first window of each session, but needs the frames, which need it.
      std::vector<uint64_t> first = {0};
      for (uint32_t s = 0; s < recording.sessions().size(); ++s) {
        const auto [begin, end] = windows.of_session(s);
        first.push_back(first.back() + end - begin);
      }
      const SessionOrderSettings order = order_settings(windows, first, json);
      const Frames frames(
          recording, frames_options(windows, first, order, json, uint64_t(std::max(threads, 1))),
          p);
      const RecordingSource source(windows, frames,
                                   {.batch = (order.global_batch + order.world - 1) / order.world});
      start(std::make_unique<RecordingBatches>(
          source, SessionOrder(first, order),
          LoaderThreads{threads, prefetch.value_or(source.prefetch(threads))}));
    });
  }

  nb::object next() {
    BatchRef<RecordingBatch> batch = take();
    if (!batch) return nb::none();
    return arrays(RecordingArrays(std::move(batch)));
  }
  uint64_t windows() const { return loader().source().size(); }
  // (session, segment, t), each [n], of windows by number
  nb::tuple where(const std::vector<uint64_t>& numbers) const {
    std::vector<int64_t> sessions, segments, times;
    for (const uint64_t number : numbers) {
      if (number >= windows())
        throw Error("window {}: there are {}, numbered from 0", number, windows());
      const Window window = loader().source().windows().at(number);
      sessions.push_back(window.session);
      segments.push_back(window.segment);
      times.push_back(int64_t(window.t));
    }
    return nb::make_tuple(numpy_view(Array::from(std::move(sessions))),
                          numpy_view(Array::from(std::move(segments))),
                          numpy_view(Array::from(std::move(times))));
  }
  // Columns of counts that session s has in a batch.
  std::vector<uint32_t> units_of(uint32_t session) const {
    const Windows& windows = loader().source().windows();
    if (session >= windows.recording().sessions().size())
      throw Error("session {}: there are {}", session, windows.recording().sessions().size());
    const auto units = windows.units_of(session);
    return {units.begin(), units.end()};
  }

 private:
  // windows [B] i64, ptr [S + 1] i32, session [S] i64, stimulus [B, lags, Y, X], and a list [S] of
  // counts [b, rows, units] f32, validity the same u8, inputs a list [I] of [b, lags, columns] f32
  nb::dict arrays(const RecordingArrays& arrays) const {
    const RecordingBatch& batch = arrays.batch();
    const Shape& shape = batch.stimulus_shape;
    const size_t rows = loader().source().windows().settings().target_rows;
    nb::dict all;
    all["windows"] =
        arrays.view(reinterpret_cast<const int64_t*>(batch.windows.data()), {batch.size()});
    all["ptr"] = arrays.view(batch.ptr.data(), {batch.ptr.size()});
    all["stimulus"] = arrays.view(batch.stimulus, {shape[0], shape[1], shape[2], shape[3]},
                                  dlpack_of(batch.stimulus_dtype));
    nb::list sessions, counts, validity, inputs;
    for (const SessionPart& part : batch.parts) {
      sessions.append(part.session);
      counts.append(arrays.view(part.counts.data(), {part.windows, rows, part.units}));
      validity.append(arrays.view(part.validity.data(), {part.windows, rows, part.units}));
      inputs.append(inputs_of(arrays, part));
    }
    all["session"] = sessions;
    all["counts"] = counts;
    all["validity"] = validity;
    all["inputs"] = inputs;
    return all;
  }

  nb::list inputs_of(const RecordingArrays& arrays, const SessionPart& part) const {
    const std::vector<LaggedField>& fields = loader().source().windows().settings().inputs;
    nb::list all;
    for (size_t i = 0; i < fields.size(); ++i) {
      const size_t lags = fields[i].lags;
      const size_t columns = part.inputs[i].size() / std::max<size_t>(part.windows * lags, 1);
      all.append(arrays.view(part.inputs[i].data(), {part.windows, lags, columns}));
    }
    return all;
  }
};

}  // namespace

void bind_recording_loader(nb::module_& module) {
  nb::class_<RecordingLoader>(module, "RecordingLoader")
      .def(nb::init<const Recording&, const nb::object&, int, std::optional<uint64_t>,
                    const nb::object&>(),
           nb::arg("recording"), nb::arg("settings"), nb::arg("threads"),
           nb::arg("prefetch").none(), nb::arg("progress").none())
      .def("next", &RecordingLoader::next)
      .def("state", &RecordingLoader::state)
      .def("seek", &RecordingLoader::seek)
      .def("where", &RecordingLoader::where, nb::arg("windows"))
      .def("units_of", &RecordingLoader::units_of, nb::arg("session"))
      .def_prop_ro("batches", &RecordingLoader::batches)
      .def_prop_ro("windows", &RecordingLoader::windows);
}

}  // namespace lacuna::python
