#include "lacuna/train/recording/recording_session.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/window_memory.h"
#include "lacuna/recording/window_fields.h"
#include "lacuna/run/prepared_recording.h"
#include "lacuna/run/recording/session_start.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/recording/recording_order.h"
#include "lacuna/train/recording/unit_places.h"
#include "lacuna/train/recording/window_feed.h"
#include "lacuna/train/session.h"

namespace lacuna {
namespace {

std::map<Part, Windows> find_parts(const Windows& windows, const RecordingSplit& split,
                                   const Note& note) {
  std::map<Part, Windows> parts;
  parts.emplace(Part::train, windows.of_part(split, "train"));
  for (const Part part : {Part::validation, Part::test}) {
    try {
      parts.emplace(part, windows.of_part(split, name(part)));
    } catch (const Error& error) {
      note(error.what());
    }
  }
  return parts;
}

// The sessions of a recording that have training windows.
std::vector<uint32_t> trained_sessions(const Windows& training) {
  std::vector<uint32_t> sessions;
  for (uint32_t s = 0; s < training.recording().sessions().size(); ++s)
    if (const auto [first, last] = training.of_session(s); first < last) sessions.push_back(s);
  return sessions;
}

// A session without a readout cannot be judged.
void keep_sessions(std::map<Part, Windows>& parts, const std::vector<uint32_t>& sessions,
                   const Note& note) {
  const auto is_left_out = [&](const WindowRun& run) {
    return !std::ranges::binary_search(sessions, run.session);
  };
  std::set<uint32_t> left_out;
  for (auto part = parts.begin(); part != parts.end();) {
    std::vector<WindowRun> runs = part->second.runs();
    for (const WindowRun& run : runs)
      if (is_left_out(run)) left_out.insert(run.session);
    std::erase_if(runs, is_left_out);
    if (runs.size() < part->second.runs().size()) part->second = part->second.only(runs);
    part = runs.empty() ? parts.erase(part) : std::next(part);
  }
  for (const uint32_t s : left_out)
    note(fmt::format("session '{}' has no training windows: it is left out",
                     parts.at(Part::train).recording().sessions()[s].name));
}

RecordingShape shape_of(const RecordingSession& session, const WindowFields& fields) {
  const WindowSettings& settings = session.config.recording.windows;
  const Shape& frame = session.frames.frame_shape();
  RecordingShape shape = {
      int64_t(settings.stimulus.lags), int64_t(frame.at(0)), int64_t(frame.at(1)), {}};
  for (const uint32_t s : session.sessions) {
    uint64_t inputs = 0;
    for (size_t i = 0; i < settings.inputs.size(); ++i)
      inputs += fields.input_columns(i, s) * settings.inputs[i].lags;
    shape.sessions.push_back({session.recording.sessions()[s].name,
                              int64_t(session.windows.units_of(s).size()), int64_t(inputs)});
  }
  return shape;
}

Fingerprint fingerprint_of(const Recording& recording, const std::vector<uint32_t>& sessions) {
  Fingerprint all = recording.fingerprint(), chosen;
  for (const uint32_t s : sessions) {
    const std::string part = "session " + recording.sessions()[s].name;
    for (const auto& [name, hash] : all.parts())
      if (name == part) chosen.add(name, hash);
  }
  return chosen;
}

// Of a session: rows of counts and inputs as floats, and what evaluation keeps of its windows.
void count_session(const Config& config, const std::map<Part, Windows>& parts, uint32_t session,
                   WindowMemory& memory) {
  const Windows& training = parts.at(Part::train);
  const Session& in = training.recording().sessions()[session];
  const uint64_t units = training.units_of(session).size();
  for (const Segment& segment : in.segments)
    for (const Field& field : segment.fields)
      if (field.role == FieldRole::counts || field.role == FieldRole::validity ||
          field.role == FieldRole::behaviour)
        memory.field_bytes += field.bytes();
  uint64_t inputs = 0;
  for (const LaggedField& input : config.recording.windows.inputs)
    for (const Segment& segment : in.segments)
      if (const Field* field = segment.find(input.field)) {
        inputs += field->columns() * input.lags;
        break;
      }
  memory.row_bytes = std::max(memory.row_bytes, (2 * units + inputs) * sizeof(float));
  for (const std::string& name : config.evaluate.parts) {
    const auto found = parts.find(part_from_name(name));
    if (found == parts.end()) continue;
    const auto [first, last] = found->second.of_session(session);
    memory.evaluated_bytes =
        std::max(memory.evaluated_bytes, (last - first) * WindowMemory::evaluated_window(units));
  }
}

WindowMemory memory_beside(const Config& config, const std::map<Part, Windows>& parts,
                           const Windows& training, const std::vector<uint32_t>& sessions,
                           const FramesOptions& frames, at::Device device, const Group& group) {
  WindowMemory memory = {.batch = uint64_t(config.train.batch),
                         .ranks = uint64_t(group.world()),
                         .threads = uint64_t(config.train.threads),
                         .has_gpu = device.is_cuda()};
  uint64_t pixels = 0;
  for (const uint32_t s : sessions) {
    count_session(config, parts, s, memory);
    for (const Segment& segment : training.recording().sessions()[s].segments)
      if (const Field* field = segment.find(frames.field)) pixels = field->columns();
  }
  if (!is_resident(frames.rung))
    memory.window_bytes = training.settings().stimulus.lags * pixels *
                          item_size(moved_dtype(frames.rung, frames.cast));
  memory.row_bytes *= training.settings().target_rows;
  if (!config.recording.weight_column.empty()) memory.weighed_windows = training.size();
  return memory;
}

FramesOptions frames_options(const Config& config, const Windows& training, at::Device device) {
  const RecordingOptions& options = config.recording;
  const Rung rung = with_expansion(options.rung, device.is_cuda());
  const DType cast = config.train.precision == "bf16" ? DType::bf16 : DType::f32;
  return {.rung = rung,
          .field = options.windows.stimulus.field,
          .store = config.store,
          .cast = cast,
          .hot_bytes = options.hot_bytes,
          .shares = session_shares(options, training),
          .rungs = options.rungs,
          .sessions = options.windows.sessions,
          .segments = options.windows.segments};
}

// All frames, once; a piece at a time through the host's memory.
at::Tensor load_movie(const RecordingSession& session, Progress& progress) {
  constexpr uint64_t kRows = 16384;
  const Frames& frames = session.frames;
  const Shape& frame = frames.frame_shape();
  const at::Tensor movie =
      at::empty({int64_t(frames.resident_rows()), int64_t(frame[0]), int64_t(frame[1])},
                at::TensorOptions(session.device).dtype(at::kByte));
  progress.begin("loading the movie onto the GPU", frames.resident_rows(), "frames");
  uint64_t done = 0;
  for (uint32_t s = 0; s < session.recording.sessions().size(); ++s) {
    const Session& in = session.recording.sessions()[s];
    for (uint32_t g = 0; g < in.segments.size(); ++g) {
      if (!frames.has(s, g)) continue;
      for (uint64_t first = 0; first < in.segments[g].frames; first += kRows) {
        throw_if_stopped();
        const uint64_t count = std::min(kRows, in.segments[g].frames - first);
        const at::Tensor host =
            at::empty({int64_t(count), int64_t(frame[0]), int64_t(frame[1])}, at::kByte);
        frames.read_rows(s, g, first, count, static_cast<std::byte*>(host.mutable_data_ptr()));
        movie.narrow(0, int64_t(frames.resident_row(s, g, first)), int64_t(count)).copy_(host);
        progress.advance(done += count);
      }
    }
  }
  progress.end();
  return movie;
}

void check_settings(const Config& config) {
  const RecordingOptions& options = config.recording;
  if (is_resident(options.rung) && config.train.device == "cpu")
    throw Error("rung device:resident needs a GPU, but train.device is cpu; choose another rung");
}

// The config names its sessions, so that those which are added later are not the run's.
void name_sessions(Config& config, const Recording& recording,
                   const std::vector<uint32_t>& sessions) {
  std::vector<std::string>& names = config.recording.windows.sessions;
  names.clear();
  for (const uint32_t s : sessions) names.push_back(recording.sessions()[s].name);
  config.resolved["sessions"] = names;
}

// Of each session the names of its units, from a checkpoint.
std::map<std::string, std::vector<std::string>> units_of_checkpoint(const Safetensors& contents,
                                                                    const fs::path& file) {
  std::map<std::string, std::vector<std::string>> units;
  read_member(contents, file, "sessions", [&](const Json& json) {
    for (const Json& one : json)
      units[one.at("name").get<std::string>()] = one.at("units").get<std::vector<std::string>>();
  });
  return units;
}

void check_units(const std::string& session, const std::vector<std::string>& trained,
                 const std::vector<std::string>& here, const fs::path& file) {
  if (trained == here) return;
  const auto missing = [](const auto& from, const auto& in) {
    std::vector<std::string> names;
    for (const std::string& unit : from)
      if (std::find(in.begin(), in.end(), unit) == in.end()) names.push_back(unit);
    return names;
  };
  const auto gone = missing(trained, here), come = missing(here, trained);
  std::string words = "their order has changed";
  if (!gone.empty()) words = fmt::format("'{}' is gone", fmt::join(gone, "', '"));
  if (!come.empty())
    words = fmt::format("{}{}'{}' is new", gone.empty() ? "" : words, gone.empty() ? "" : ", ",
                        fmt::join(come, "', '"));
  throw Error(
      "the units of session '{}' have changed since {} was written: {}; use the units that it was "
      "trained on (`units` of the config), or fit a new readout: train.weights=RUN "
      "train.freeze=core with the session under another name",
      session, file.string(), words);
}

// Core and readouts of a run, as far as it has the sessions.
void take_weights(RecordingSession& session, const Note& note) {
  const Run run = Run::open(session.config.recording.weights_from);
  const fs::path file = run.checkpoint(choose_checkpoint(run, ""));
  const Safetensors contents = read_checkpoint(file);
  const auto trained = units_of_checkpoint(contents, file);
  std::vector<std::string> known, fresh;
  for (int64_t s = 0; s < int64_t(session.sessions.size()); ++s) {
    const std::string& name = session.model->shape().sessions[size_t(s)].session;
    const auto found = trained.find(name);
    (found == trained.end() ? fresh : known).push_back(name);
    if (found == trained.end()) continue;
    check_units(name, found->second, session.unit_names(s), file);
    load_weights(contents, file, session.model->readout(s), session.model->readout_name(s) + ".");
  }
  for (const auto& entry : session.model->named_parameters(/*recurse=*/false))
    load_weight(contents, file, entry.key(), entry.value());
  note(fmt::format("weights of {}: its core{}{}; new readouts: {}", file.string(),
                   known.empty() ? "" : ", and the readouts of ", fmt::join(known, ", "),
                   fresh.empty() ? "none" : fmt::format("{}", fmt::join(fresh, ", "))));
}

// What new readouts start from, [S]: remembered, or found and remembered.
std::vector<SessionStart> find_starts(const RecordingSession& session,
                                      const PreparedRecording& prepared,
                                      const WindowFields& fields) {
  const fs::path& path = session.recording.path();
  const Windows& training = session.part(Part::train);
  std::vector<SessionStart> starts(session.sessions.size());
  std::vector<uint64_t> keys;
  std::vector<size_t> unknown;
  for (size_t s = 0; s < starts.size(); ++s) {
    const Session& in = session.recording.sessions()[session.sessions[s]];
    keys.push_back(session_start_key(prepared, session.config, in));
    if (auto known = recall_session_start(path, keys[s]))
      starts[s] = std::move(*known);
    else
      unknown.push_back(s);
  }
  std::vector<uint32_t> numbers;
  for (const size_t s : unknown) numbers.push_back(session.sessions[s]);
  const std::vector<SessionScale> scales = find_scales(fields, training, numbers);
  for (size_t i = 0; i < unknown.size(); ++i) {
    SessionStart& start = starts[unknown[i]];
    start = {scales[i],
             find_places(session.frames, fields, training, numbers[i], scales[i].mean_counts)};
    remember_session_start(path, keys[unknown[i]], start);
  }
  return starts;
}

// Nothing is learned of a unit that has no valid spike: nobody should find out at the end.
void note_silent_units(const RecordingSession& session, const Note& note) {
  for (int64_t s = 0; s < int64_t(session.sessions.size()); ++s) {
    const std::vector<std::string> units = session.unit_names(s);
    std::vector<std::string> silent;
    for (size_t u = 0; u < units.size(); ++u)
      if (session.scales[size_t(s)].mean_counts[u] == 0) silent.push_back(units[u]);
    if (silent.empty()) continue;
    const size_t all = silent.size();
    if (all > 5) silent.resize(5);
    note(fmt::format("session '{}': {} of {} units have no valid spike in training ({}{})",
                     session.model->shape().sessions[size_t(s)].session, all, units.size(),
                     fmt::join(silent, ", "), all > 5 ? ", .." : ""));
  }
}

RecordingSession assemble(const Config& config, bool is_new, const Note& note, Progress& progress,
                          Group& group) {
  const RecordingOptions& options = config.recording;
  if (!fs::exists(options.path))
    throw Error("there is no recording {}; {}", options.path.string(),
                is_new
                    ? "name it in the config (`recording`, a path from the folder that lacuna is "
                      "called in), or with --set recording=DIRECTORY"
                    : "name the place that it has moved to with --recording");
  check_settings(config);
  const PreparedRecording prepared = open_prepared(config);
  const Recording& recording = prepared.recording;
  const Windows windows(recording, prepared.windows);
  const RecordingSplit split = recording.split(config.split);
  auto parts = find_parts(windows, split, note);
  const Windows training =
      options.rows == 1 ? parts.at(Part::train)
                        : Windows(recording, with_target_rows(prepared.windows, options.rows))
                              .of_part(split, "train");
  const at::Device device = choose_device(config.train.device, note, group);
  if (device.is_cuda() && device.index() > 0)
    c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  const std::vector<uint32_t> sessions = trained_sessions(training);
  keep_sessions(parts, sessions, note);
  Config named = config;
  name_sessions(named, recording, sessions);
  const auto watch = std::make_shared<MemoryWatch>(note);
  FramesOptions frames = frames_options(named, training, device);
  frames.view = prepared.frame_ops;
  frames.beside_bytes =
      memory_beside(named, parts, training, sessions, frames, device, group).bytes();
  if (const std::string lost = precision_lost(recording, frames.field, frames.rung); !lost.empty())
    note(lost);
  RecordingSession session = {.config = named,
                              .recording = recording,
                              .windows = windows,
                              .parts = std::move(parts),
                              .training = training,
                              .fingerprint = fingerprint_of(recording, sessions),
                              .frames = Frames(recording, frames, progress),
                              .sessions = sessions,
                              .scales = {},
                              .model = {},
                              .device = device,
                              .movie = {},
                              .group = &group,
                              .watch = watch,
                              .lock = prepared.lock};
  if (!session.frames.note().empty()) note(session.frames.note());
  const WindowFields fields(session.part(Part::train));
  session.model =
      make_core_readout(session.config.model, shape_of(session, fields), device, config.train.seed);
  if (config.train.precision == "bf16") session.model->compute_in(at::kBFloat16);
  if (is_resident(session.frames.rung())) session.movie = load_movie(session, progress);
  if (!is_new) return session;
  const auto starts = find_starts(session, prepared, fields);
  for (size_t s = 0; s < starts.size(); ++s) {
    session.scales.push_back(starts[s].scale);
    session.model->start_at(int64_t(s), at::tensor(starts[s].scale.mean_counts, at::kDouble));
    session.model->place_at(int64_t(s), at::tensor(starts[s].places, at::kFloat).view({-1, 2}));
  }
  note_silent_units(session, note);
  return session;
}

// A store that the training read may be gone: the recording itself is always there.
Config config_to_read(const Run& run, const OpenRecordingRun& request, const Note& note) {
  Config config = read_config(run.config(), {});
  if (!request.device.empty()) config.train.device = request.device;
  if (!request.recording.empty()) config.recording.path = request.recording;
  const bool is_gone = !config.store.empty() && !fs::exists(config.store);
  const bool needs_gpu = is_resident(config.recording.rung) && config.train.device == "cpu";
  if (is_gone)
    note(fmt::format("store {} is gone: frames are read from the recording (rung disk:u8)",
                     config.store.string()));
  if (is_gone || needs_gpu) {
    config.recording.rung = {Place::disk, Form::u8};
    config.store.clear();
  }
  return config;
}

}  // namespace

const Windows& RecordingSession::part(Part part) const {
  const auto found = parts.find(part);
  if (found == parts.end())
    throw Error("split '{}' has no windows in {}", config.split, name(part));
  return found->second;
}

int64_t RecordingSession::model_session(uint32_t session) const {
  const auto found = std::find(sessions.begin(), sessions.end(), session);
  return found == sessions.end() ? -1 : found - sessions.begin();
}

std::vector<std::string> RecordingSession::unit_names(int64_t model_session) const {
  const uint32_t session = sessions.at(size_t(model_session));
  std::vector<std::string> names;
  for (const uint32_t unit : windows.units_of(session))
    names.push_back(recording.sessions()[session].units.at(unit));
  return names;
}

RecordingSession open_recording_session(const Config& config, const Note& note, Progress& progress,
                                        Group& group, bool goes_on) {
  RecordingSession session = assemble(config, /*is_new=*/!goes_on, note, progress, group);
  if (!config.recording.weights_from.empty() && !goes_on) take_weights(session, note);
  if (config.recording.freeze == "core") session.model->freeze_core();
  return session;
}

RecordingSession open_recording_run(const Run& run, const OpenRecordingRun& request,
                                    const Note& note, Progress& progress, Group& group) {
  const fs::path file = run.checkpoint(choose_checkpoint(run, request.checkpoint));
  const Safetensors contents = read_checkpoint(file);
  RecordingSession session =
      assemble(config_to_read(run, request, note), /*is_new=*/false, note, progress, group);
  take_up(contents, file, session);
  load_weights(contents, file, *session.model);
  return session;
}

Json recording_checkpoint_members(const RecordingSession& session) {
  YAML::Emitter settings;
  settings << session.config.model;
  Json sessions = Json::array();
  for (size_t s = 0; s < session.sessions.size(); ++s) {
    const SessionScale& scale = session.scales.at(s);
    sessions.push_back({{"name", session.model->shape().sessions[s].session},
                        {"units", session.unit_names(int64_t(s))},
                        {"mean_counts", scale.mean_counts},
                        {"input_mean", scale.input_mean},
                        {"input_sd", scale.input_sd}});
  }
  return {{"sessions", sessions}, {"model", settings.c_str()}};
}

void take_up(const Safetensors& contents, const fs::path& file, RecordingSession& session) {
  const auto trained = units_of_checkpoint(contents, file);
  std::vector<std::string> here;
  for (int64_t s = 0; s < int64_t(session.sessions.size()); ++s) {
    here.push_back(session.model->shape().sessions[size_t(s)].session);
    const auto found = trained.find(here.back());
    if (found == trained.end())
      throw Error(
          "{} was not trained on session '{}'; name those of the run (`sessions`), or fit a "
          "readout for it with train.weights and train.freeze=core",
          file.string(), here.back());
    check_units(here.back(), found->second, session.unit_names(s), file);
  }
  for (const auto& [name, units] : trained)
    if (std::find(here.begin(), here.end(), name) == here.end())
      throw Error("{} was trained on session '{}', which has no training windows in {} now",
                  file.string(), name, session.recording.path().string());
  check_fingerprint(read_fingerprint(contents, file), session.fingerprint, file,
                    {"recording", "recording", session.recording.path().string()});
  read_member(contents, file, "sessions", [&](const Json& json) {
    session.scales.clear();
    for (const std::string& name : here)
      for (const Json& one : json)
        if (one.at("name") == name)
          session.scales.push_back({one.at("mean_counts").get<std::vector<double>>(),
                                    one.at("input_mean").get<std::vector<double>>(),
                                    one.at("input_sd").get<std::vector<double>>()});
  });
}

}  // namespace lacuna
