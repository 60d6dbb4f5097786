#include "cli/bench_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/python_script.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/workshop.h"
#include "lacuna/core/error.h"
#include "lacuna/plan/machine.h"
#include "lacuna/plan/measure_recording.h"
#include "lacuna/run/recording_ladder_file.h"

namespace lacuna::cli {
namespace {

// Rungs with what training on them showed; what only training measures stands last.
std::vector<RecordingLadderRow> ladder_rows(const RecordingLadderMeasurement& measured,
                                            const TrainedRecordingLadder& trained) {
  std::vector<RecordingLadderRow> rows;
  for (const auto& row : measured.rows) rows.push_back(ladder_row(row));
  for (const std::string& name : trained.names) {
    const TrainedRung& rung = trained.rungs.at(name);
    auto row = std::ranges::find(rows, name, &RecordingLadderRow::name);
    if (row == rows.end()) row = rows.insert(row, {.name = name});
    row->train_ms_per_step = rung.step_ms;
    row->train_over_ready = rung.over_ready.value_or(NAN);
    row->device_peak_bytes = rung.device_bytes.value_or(NAN);
    row->train_difference = rung.difference.value_or(NAN);
  }
  return rows;
}

using Cells = std::vector<std::string>;

Cells cells_of(const RecordingRungMeasurement& row) {
  const auto bytes = [](double value) { return format_bytes(uint64_t(value)); };
  const auto or_dash = [](double value, const std::string& text) {
    return value > 0 ? text : std::string("-");
  };
  return {row.name,
          format_rate(row.windows_per_second),
          format_digits(row.batch_seconds * 1000),
          bytes(row.windows_per_second * row.moved_bytes) + "/s",
          bytes(row.frame_bytes),
          bytes(row.moved_bytes),
          or_dash(row.held_bytes, bytes(row.held_bytes)),
          or_dash(row.host_bytes, bytes(row.host_bytes)),
          or_dash(row.prepare_seconds, format_digits(row.prepare_seconds) + " s"),
          or_dash(row.first_seconds, format_digits(row.first_seconds) + " s"),
          row.is_exact ? "yes" : "NO"};
}

Cells training_cells(const TrainedRecordingLadder& trained, const std::string& name) {
  const auto found = trained.rungs.find(name);
  if (found == trained.rungs.end()) return {"-", "-", "-", "-"};
  const auto number = [](const std::optional<double>& value, auto format) {
    return value ? std::string(format(*value)) : std::string("-");
  };
  const auto percent = [](double share) { return fmt::format("{:+.1f}%", 100 * share); };
  const auto bytes = [](double value) { return format_bytes(uint64_t(value)); };
  const auto small = [](double value) { return fmt::format("{:.1g}", value); };
  const TrainedRung& rung = found->second;
  return {format_digits(rung.step_ms), number(rung.over_ready, percent),
          number(rung.device_bytes, bytes), number(rung.difference, small)};
}

// Rungs with what training on them showed; what only training measures stands last.
void print_rungs(const RecordingLadderMeasurement& measured,
                 const TrainedRecordingLadder& trained) {
  std::vector<Cells> rows = {{"rung", "windows/s", "ms/batch", "given", "a frame", "moved/window",
                              "held", "beside", "prepare", "first batch", "exact"}};
  const size_t columns = rows[0].size();
  for (const auto& row : measured.rows) rows.push_back(cells_of(row));
  for (const std::string& name : trained.names) {
    if (measured.find(name)) continue;
    rows.emplace_back(columns, "-");
    rows.back()[0] = name;
  }
  std::vector<size_t> right = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  if (!trained.names.empty()) {
    for (Cells& row : rows)
      for (const std::string& cell : training_cells(trained, row[0])) row.push_back(cell);
    std::ranges::copy(Cells{"ms/step", "over ready", "on GPU", "differs"},
                      rows[0].begin() + long(columns));
    right.insert(right.end(), {11, 12, 13, 14});
  }
  fmt::print("{}\n", format_table(rows, right));
  if (!trained.names.empty()) fmt::print("trained: {}\n", trained.words);
}

std::vector<Json> run_recording_peers(const RecordingLadderArguments& arguments,
                                      const LaggedField& stimulus, const fs::path& slice) {
  PythonScript script(
      "recording_peers.py", arguments.python,
      {slice.string(), "--field", stimulus.field, "--lags", std::to_string(stimulus.lags),
       "--batch", std::to_string(arguments.batch), "--rounds", std::to_string(arguments.rounds),
       "--seconds", fmt::format("{}", arguments.seconds)});
  std::vector<Json> peers;
  for (std::string line; script.read_line(line);) {
    const Json peer = parse_json(line, script.path().string() + " printed");
    if (peer.contains("error")) throw Error(peer.at("error").get<std::string>());
    peers.push_back(peer);
    fmt::print(stderr, "measured: {}\n", peer.at("name").get<std::string>());
  }
  if (const int status = script.end(); status != 0)
    throw Error("{} failed with status {}; what Python said stands above", script.path().string(),
                status);
  return peers;
}

void compare(const RecordingLadderMeasurement& measured, const std::vector<Json>& peers) {
  const auto rate = [&](const std::string& name) {
    const auto* row = measured.find(name);
    return row ? row->windows_per_second : NAN;
  };
  const auto print = [&](const std::string& rung, const std::string& loop) {
    if (std::isnan(rate(rung)) || std::isnan(rate(loop))) return;
    fmt::print("{} gives {:.0f}% of the {}\n", rung, 100 * rate(rung) / rate(loop), loop);
  };
  print("ram:u8@device", "memcpy loop");
  print("disk:u8@device", "memcpy loop");
  print("ram:u8@worker", "gather and cast");
  print("disk:u8@worker", "gather and cast");
  for (const Json& peer : peers) {
    const double theirs = peer.at("windows_per_s").get<double>();
    const std::string name = peer.at("name").get<std::string>();
    fmt::print("{}: {} windows/s", name, format_rate(theirs));
    for (const char* ours : {"ram:u8@device", "ram:u8@worker"})
      if (!std::isnan(rate(ours))) fmt::print("; {} is {:.1f}x as fast", ours, rate(ours) / theirs);
    fmt::print("\n");
  }
}

// Windows as the config has them, without inputs: they cost every rung the same.
WindowSettings loading_windows(const RecordingLadderArguments& arguments, WindowSettings windows) {
  windows.inputs.clear();
  windows.transforms = Json::object();
  if (arguments.lags) windows.stimulus.lags = *arguments.lags;
  if (arguments.field) windows.stimulus.field = *arguments.field;
  return windows;
}

}  // namespace

void bench_recording_ladder(const RecordingLadderArguments& arguments) {
  check_folder_of(arguments.json, "--json");
  for (const std::string& rung : arguments.rungs) (void)recording_rung_from_name(rung);
  stop_on_signals();
  const double load = load_average();
  const Recording recording = Recording::open(arguments.recording);
  const Workshop workshop(arguments.out, "ladder");
  const Recording slice =
      write_recording_slice(recording, workshop.path() / "slice", arguments.frames);
  RecordingLadderTraining training;  // what a config lacks shows at once
  if (arguments.train) training = recording_ladder_training(slice, arguments, workshop.path());
  RecordingLadderSettings settings;
  settings.folder = workshop.path();
  settings.rungs = arguments.rungs;
  settings.windows = loading_windows(arguments, training.windows);
  settings.batch = arguments.batch;
  settings.threads = arguments.threads;
  settings.seconds = arguments.seconds;
  settings.rounds = arguments.rounds;
  std::vector<Json> peers;
  if (arguments.peers)
    peers = run_recording_peers(arguments, settings.windows.stimulus, slice.path());
  TerminalProgress progress;
  const RecordingLadderMeasurement measured = measure_recording(
      slice, settings,
      [](const RecordingRungMeasurement& row) { fmt::print(stderr, "measured: {}\n", row.name); },
      progress);
  TrainedRecordingLadder trained;
  if (training.train) {
    std::vector<std::string> rungs;
    for (const auto& row : measured.rows)
      if (row.is_rung) rungs.push_back(row.name);
    trained = training.train(rungs, progress);
  }

  const std::string machine = describe(probe_machine(workshop.path()));
  fmt::print("{}; load {:.2f} when it began; {}\n", machine, load, today());
  fmt::print(
      "{}: {} frames of {} sessions, {} windows of {} lags, batch {}, shuffled, {} loader threads, "
      "warm; the median of {} rounds\n\n",
      arguments.recording.string(), with_commas(measured.frames), slice.sessions().size(),
      with_commas(measured.windows), settings.windows.stimulus.lags, measured.batch,
      measured.threads, arguments.rounds);
  print_rungs(measured, trained);
  compare(measured, peers);
  if (arguments.json.empty()) return;
  RecordingLadder ladder;
  ladder.frames = measured.frames;
  ladder.windows = measured.windows;
  ladder.lags = settings.windows.stimulus.lags;
  ladder.batch = measured.batch;
  ladder.threads = uint64_t(measured.threads);
  ladder.machine = machine;
  ladder.date = today();
  ladder.load = load;
  ladder.recording = fs::absolute(arguments.recording).string();
  ladder.fingerprint = recording.fingerprint();
  ladder.training = trained.words;
  ladder.rows = ladder_rows(measured, trained);
  ladder.peers = peers;
  write_recording_ladder(arguments.json, ladder);
}

}  // namespace lacuna::cli
