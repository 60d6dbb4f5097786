#include "lacuna/run/ladder_file.h"

#include <cmath>

#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

constexpr const char* kLadderFormat = "lacuna.ladder";

Json rung_to_json(const LadderRow& row) {
  return {{"rung", row.name},
          {"samples_per_s", row.samples_per_s},
          {"ms_per_batch", row.ms_per_batch},
          {"read_ms_per_batch", row.read_ms_per_batch},
          {"planned_ms_per_batch", row.planned_ms_per_batch},
          {"planned_ratio", row.planned_ratio},
          {"stored_bytes_per_sample", row.stored_bytes_per_sample},
          {"moved_bytes_per_sample", row.moved_bytes_per_sample},
          {"host_peak_bytes", row.host_peak_bytes},
          {"device_peak_bytes", row.device_peak_bytes},
          {"train_steps_per_s", row.train_steps_per_s},
          {"train_difference", row.train_difference},
          {"exact", row.is_exact.value_or(false)}};
}

Json peer_to_json(const LadderRow& row) {
  Json json = {{"name", row.name}, {"way", row.way}, {"workers", row.workers}};
  if (!row.left_out.empty()) {
    json["left_out"] = row.left_out;
    return json;
  }
  json.update({{"samples_per_s", row.samples_per_s},
               {"ms_per_batch", row.ms_per_batch},
               {"read_ms_per_batch", row.read_ms_per_batch},
               {"stored_bytes_per_sample", row.stored_bytes_per_sample},
               {"moved_bytes_per_sample", row.moved_bytes_per_sample},
               {"host_peak_bytes", uint64_t(row.host_peak_bytes)},
               {"exact", row.is_exact.value_or(false)}});
  return json;
}

LadderRow row_from(const Json& json, const char* name) {
  LadderRow row = {.name = json.at(name).get<std::string>(),
                   .samples_per_s = number_of(json, "samples_per_s"),
                   .ms_per_batch = number_of(json, "ms_per_batch"),
                   .read_ms_per_batch = number_of(json, "read_ms_per_batch"),
                   .stored_bytes_per_sample = number_of(json, "stored_bytes_per_sample"),
                   .moved_bytes_per_sample = number_of(json, "moved_bytes_per_sample"),
                   .host_peak_bytes = number_of(json, "host_peak_bytes"),
                   .device_peak_bytes = number_of(json, "device_peak_bytes"),
                   .planned_ms_per_batch = number_of(json, "planned_ms_per_batch"),
                   .planned_ratio = number_of(json, "planned_ratio"),
                   .train_steps_per_s = number_of(json, "train_steps_per_s"),
                   .train_difference = number_of(json, "train_difference"),
                   .way = text_of(json, "way"),
                   .workers = count_of(json, "workers"),
                   .left_out = text_of(json, "left_out")};
  if (json.contains("exact")) row.is_exact = json.at("exact").get<bool>();
  return row;
}

Ladder ladder_from(const Json& json) {
  Ladder ladder = {.samples = count_of(json, "samples"),
                   .batch = count_of(json, "batch"),
                   .threads = count_of(json, "threads"),
                   .machine = text_of(json, "machine"),
                   .date = text_of(json, "date"),
                   .load = number_of(json, "load"),
                   .screen = data_path_of(json),
                   .fingerprint = data_fingerprint_of(json),
                   .training = text_of(json, "training"),
                   .rungs = {},
                   .peers = {}};
  for (const Json& rung : json.at("rungs")) ladder.rungs.push_back(row_from(rung, "rung"));
  if (!json.contains("peers")) return ladder;
  for (const Json& peer : json.at("peers")) ladder.peers.push_back(row_from(peer, "name"));
  return ladder;
}

}  // namespace

Ladder ladder_of(const LadderMeasurement& measured) {
  Ladder ladder;
  ladder.samples = measured.samples;
  ladder.batch = measured.batch;
  ladder.threads = uint64_t(measured.threads);
  for (const RungMeasurement& rung : measured.rungs)
    ladder.rungs.push_back(
        {.name = std::string(name(rung.rung)),
         .samples_per_s = double(measured.batch) / rung.batch_seconds,
         .ms_per_batch = 1000 * rung.batch_seconds,
         .read_ms_per_batch = 1000 * rung.read_seconds,
         .stored_bytes_per_sample = rung.stored_bytes,
         .moved_bytes_per_sample = rung.moved_bytes,
         .host_peak_bytes = rung.host_bytes,
         .device_peak_bytes = rung.device_bytes.value_or(LadderRow::kNotMeasured),
         .is_exact = rung.is_exact,
         .planned_ms_per_batch = 1000 * rung.planned_seconds,
         .planned_ratio = rung.planned_ratio(),
         .train_steps_per_s = rung.steps_per_second.value_or(LadderRow::kNotMeasured),
         .train_difference = rung.difference.value_or(LadderRow::kNotMeasured)});
  return ladder;
}

LadderRow peer_from_json(const Json& json) { return row_from(json, "name"); }

void write_ladder(const fs::path& file, const Ladder& ladder) {
  Json json = {{"samples", ladder.samples},
               {"batch", ladder.batch},
               {"threads", ladder.threads},
               {"rungs", Json::array()},
               {"format", kLadderFormat},
               {"version", 1},
               {"machine", ladder.machine},
               {"load", ladder.load},
               {"date", ladder.date},
               {"screen", {{"path", ladder.screen}, {"fingerprint", ladder.fingerprint.to_json()}}},
               {"peers", Json::array()}};
  for (const LadderRow& rung : ladder.rungs) json["rungs"].push_back(rung_to_json(rung));
  for (const LadderRow& peer : ladder.peers) json["peers"].push_back(peer_to_json(peer));
  if (!ladder.training.empty()) json["training"] = ladder.training;
  write_sealed_json(file, json);
}

Ladder read_ladder(const fs::path& file) {
  return read_json_file(file, kLadderFormat, "run `lacuna bench ladder` again, or remove it",
                        [](const SealedJson& sealed) { return ladder_from(sealed.json); });
}

}  // namespace lacuna
