#include "lacuna/run/recording_ladder_file.h"

#include <array>
#include <cmath>

#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

constexpr const char* kRecordingLadderFormat = "lacuna.recording_ladder";

struct LadderFigure {
  const char* key;
  double RecordingLadderRow::*value;
};
constexpr std::array kLadderFigures = {
    LadderFigure{"windows_per_s", &RecordingLadderRow::windows_per_s},
    LadderFigure{"ms_per_batch", &RecordingLadderRow::ms_per_batch},
    LadderFigure{"bytes_per_frame", &RecordingLadderRow::bytes_per_frame},
    LadderFigure{"moved_bytes_per_window", &RecordingLadderRow::moved_bytes_per_window},
    LadderFigure{"held_bytes", &RecordingLadderRow::held_bytes},
    LadderFigure{"host_peak_bytes", &RecordingLadderRow::host_peak_bytes},
    LadderFigure{"prepare_s", &RecordingLadderRow::prepare_s},
    LadderFigure{"first_batch_s", &RecordingLadderRow::first_batch_s},
    LadderFigure{"train_ms_per_step", &RecordingLadderRow::train_ms_per_step},
    LadderFigure{"train_over_ready", &RecordingLadderRow::train_over_ready},
    LadderFigure{"train_difference", &RecordingLadderRow::train_difference},
    LadderFigure{"device_peak_bytes", &RecordingLadderRow::device_peak_bytes}};

// What was not measured is not there.
Json to_json(const RecordingLadderRow& row) {
  Json json = {{"name", row.name}, {"is_rung", row.is_rung}};
  for (const auto& [key, value] : kLadderFigures)
    if (std::isfinite(row.*value)) json[key] = row.*value;
  if (row.is_exact) json["exact"] = *row.is_exact;
  return json;
}

RecordingLadderRow row_from(const Json& json) {
  RecordingLadderRow row;
  row.name = json.at("name").get<std::string>();
  row.is_rung = json.value("is_rung", false);
  for (const auto& [key, value] : kLadderFigures) row.*value = number_of(json, key);
  if (json.contains("exact")) row.is_exact = json.at("exact").get<bool>();
  return row;
}

RecordingLadder recording_ladder_from(const Json& json) {
  RecordingLadder ladder;
  ladder.frames = count_of(json, "frames");
  ladder.windows = count_of(json, "windows");
  ladder.lags = count_of(json, "lags");
  ladder.batch = count_of(json, "batch");
  ladder.threads = count_of(json, "threads");
  ladder.machine = text_of(json, "machine");
  ladder.date = text_of(json, "date");
  ladder.load = number_of(json, "load");
  const Json& recording = json.at("recording");
  ladder.recording = text_of(recording, "path");
  ladder.fingerprint = Fingerprint::from_json(recording.at("fingerprint"));
  ladder.training = text_of(json, "trained");
  for (const Json& row : json.at("rungs")) ladder.rows.push_back(row_from(row));
  for (const Json& peer : json.at("peers")) {
    (void)peer.at("name").get<std::string>();
    (void)peer.at("windows_per_s").get<double>();
    ladder.peers.push_back(peer);
  }
  return ladder;
}

}  // namespace

RecordingLadderRow ladder_row(const RecordingRungMeasurement& measured) {
  return {.name = measured.name,
          .is_rung = measured.is_rung,
          .windows_per_s = measured.windows_per_second,
          .ms_per_batch = measured.batch_seconds * 1000,
          .bytes_per_frame = measured.frame_bytes,
          .moved_bytes_per_window = measured.moved_bytes,
          .held_bytes = measured.held_bytes,
          .host_peak_bytes = measured.host_bytes,
          .prepare_s = measured.prepare_seconds,
          .first_batch_s = measured.first_seconds,
          .is_exact = measured.is_exact};
}

void write_recording_ladder(const fs::path& file, const RecordingLadder& ladder) {
  Json json = {
      {"format", kRecordingLadderFormat},
      {"version", 1},
      {"frames", ladder.frames},
      {"windows", ladder.windows},
      {"lags", ladder.lags},
      {"batch", ladder.batch},
      {"threads", ladder.threads},
      {"machine", ladder.machine},
      {"load", ladder.load},
      {"date", ladder.date},
      {"recording", {{"path", ladder.recording}, {"fingerprint", ladder.fingerprint.to_json()}}},
      {"rungs", Json::array()},
      {"peers", ladder.peers}};
  for (const RecordingLadderRow& row : ladder.rows) json["rungs"].push_back(to_json(row));
  if (!ladder.training.empty()) json["trained"] = ladder.training;
  write_sealed_json(file, json);
}

RecordingLadder read_recording_ladder(const fs::path& file) {
  return read_json_file(
      file, kRecordingLadderFormat, "run `lacuna bench ladder RECORDING` again, or remove it",
      [](const SealedJson& sealed) { return recording_ladder_from(sealed.json); });
}

}  // namespace lacuna
