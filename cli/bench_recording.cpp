#include "cli/bench_recording.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/python_script.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/workshop.h"
#include "lacuna/core/error.h"
#include "lacuna/plan/machine.h"
#include "lacuna/plan/measure_recording.h"

namespace lacuna::cli {
namespace {

Json row_json(const RecordingRungMeasurement& row) {
  return {{"name", row.name},
          {"is_rung", row.is_rung},
          {"windows_per_s", row.windows_per_second},
          {"ms_per_batch", row.batch_seconds * 1000},
          {"bytes_per_frame", row.frame_bytes},
          {"moved_bytes_per_window", row.moved_bytes},
          {"held_bytes", row.held_bytes},
          {"host_peak_bytes", row.host_bytes},
          {"prepare_s", row.prepare_seconds},
          {"first_batch_s", row.first_seconds},
          {"exact", row.is_exact}};
}

std::vector<std::string> cells_of(const RecordingRungMeasurement& row) {
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

std::vector<Json> run_recording_peers(const RecordingLadderArguments& arguments,
                                      const fs::path& slice) {
  PythonScript script(
      "recording_peers.py", arguments.python,
      {slice.string(), "--field", arguments.field, "--lags", std::to_string(arguments.lags),
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
    const std::string ours =
        peer.at("dtype").get<std::string>() == "u8" ? "ram:u8@device" : "ram:u8@worker";
    fmt::print("{}: {} windows/s", name, format_rate(theirs));
    if (!std::isnan(rate(ours))) fmt::print("; {} is {:.1f}x as fast", ours, rate(ours) / theirs);
    fmt::print("\n");
  }
}

}  // namespace

void bench_recording_ladder(const RecordingLadderArguments& arguments) {
  check_folder_of(arguments.json, "--json");
  for (const std::string& rung : arguments.rungs) (void)recording_rung_from_name(rung);
  stop_on_signals();
  const Recording recording = Recording::open(arguments.recording);
  const Workshop workshop(arguments.out, "ladder");
  const Recording slice =
      write_recording_slice(recording, workshop.path() / "slice", arguments.frames);
  RecordingLadderSettings settings;
  settings.folder = workshop.path();
  settings.rungs = arguments.rungs;
  settings.windows.stimulus = {.field = arguments.field, .lags = arguments.lags};
  settings.windows.counts = arguments.counts;
  settings.batch = arguments.batch;
  settings.threads = arguments.threads;
  settings.seconds = arguments.seconds;
  settings.rounds = arguments.rounds;
  std::vector<Json> peers;
  if (arguments.peers) peers = run_recording_peers(arguments, slice.path());
  TerminalProgress progress;
  const RecordingLadderMeasurement measured = measure_recording(
      slice, settings,
      [](const RecordingRungMeasurement& row) { fmt::print(stderr, "measured: {}\n", row.name); },
      progress);

  const Machine machine = probe_machine(workshop.path());
  fmt::print("{:.0f} cores of {}, {} of memory free, {}\n", machine.cores.value, cpu_name(),
             format_bytes(uint64_t(machine.memory.value)),
             machine.gpu ? machine.gpu->name : "no GPU");
  fmt::print(
      "{}: {} frames of {} sessions, {} windows of {} lags, batch {}, shuffled, {} loader threads, "
      "warm; the median of {} rounds\n\n",
      arguments.recording.string(), with_commas(measured.frames), slice.sessions().size(),
      with_commas(measured.windows), arguments.lags, measured.batch, measured.threads,
      arguments.rounds);
  std::vector<std::vector<std::string>> rows = {{"rung", "windows/s", "ms/batch", "given",
                                                 "a frame", "moved/window", "held", "beside",
                                                 "prepare", "first batch", "exact"}};
  for (const auto& row : measured.rows) rows.push_back(cells_of(row));
  fmt::print("{}\n", format_table(rows, {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  compare(measured, peers);
  if (arguments.json.empty()) return;
  Json json = {{"frames", measured.frames},
               {"windows", measured.windows},
               {"batch", measured.batch},
               {"threads", measured.threads},
               {"machine", to_json(machine)},
               {"rungs", Json::array()},
               {"peers", peers}};
  for (const auto& row : measured.rows) json["rungs"].push_back(row_json(row));
  write_text_atomically(arguments.json, json.dump(2) + "\n");
}

}  // namespace lacuna::cli
