// `lacuna info RECORDING`: sessions, fields with their true dtypes and bytes, splits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/info.h"
#include "cli/terminal.h"
#include "lacuna/recording/recording.h"
#include "lacuna/recording/recording_summary.h"

namespace lacuna::cli {
namespace {

using Table = std::vector<std::vector<std::string>>;

std::string sessions_table(const RecordingSummary& summary) {
  Table rows = {{"session", "subject", "Hz", "units", "segments", "frames", "minutes", "trials",
                 "longest", "stimuli", "repeated", "outside", "invalid", "NaN", "bytes"}};
  for (const SessionSummary& one : summary.sessions)
    rows.push_back({one.name, one.subject, fmt::format("{:g}", one.rate), with_commas(one.units),
                    with_commas(one.segments), with_commas(one.frames),
                    fmt::format("{:.1f}", double(one.frames) / one.rate / 60),
                    with_commas(one.trials), with_commas(one.longest), with_commas(one.stimuli),
                    with_commas(one.repeated), with_commas(one.outside), with_commas(one.invalid),
                    with_commas(one.nan), format_bytes(one.bytes)});
  return format_table(rows, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}) +
         "longest: rows of the longest trial without a gap; outside: rows in no trial; invalid and "
         "NaN: rows\n";
}

std::string fields_table(const RecordingSummary& summary) {
  Table rows = {{"field", "role", "dtype", "source", "row", "segments", "rows", "bytes a row",
                 "bytes", "NaN rows"}};
  for (const FieldSummary& one : summary.fields)
    rows.push_back(
        {one.name, one.role, one.dtype, one.in_place ? "in place" : one.recorded_as, one.row_shape,
         with_commas(one.segments), with_commas(one.rows),
         fmt::format("{:.4g}", double(one.bytes) / double(std::max<uint64_t>(1, one.rows))),
         format_bytes(one.bytes), with_commas(one.nan_rows)});
  return format_table(rows, {5, 6, 7, 8, 9});
}

// A movie that takes more bytes than its values need is said aloud.
std::string wide_stimuli(const RecordingSummary& summary) {
  std::string words;
  for (const FieldSummary& one : summary.fields)
    if (one.bytes_as_u8 > 0)
      words += fmt::format(
          "attention: {} is {}, not u8: it takes {} where u8 would take {}{}\n", one.name,
          one.dtype, format_bytes(one.bytes), format_bytes(one.bytes_as_u8),
          one.is_u8_in_disguise
              ? "; the frames looked at hold bytes only: `lacuna import recording --narrow` keeps "
                "them exactly"
              : "; its values are not bytes: u8 would round them");
  return words;
}

std::string splits_table(const Recording& recording) {
  if (recording.splits().empty()) return "no splits; `lacuna split` draws one\n";
  Table rows = {{"split", "by", "train", "validation", "test", "unused", "sessions"}};
  for (const RecordingSplit& split : recording.splits()) {
    std::vector<std::string> row = {split.name, split.how.value("by", "")};
    for (const char* part : {"train", "validation", "test", "unused"})
      row.push_back(with_commas(split.how.at("counts").value(part, uint64_t(0))));
    uint64_t covered = 0;
    for (const Session& session : recording.sessions())
      covered += !split.of(session.name, session.segments[0].name).empty();
    row.push_back(fmt::format("{} of {}", covered, recording.sessions().size()));
    rows.push_back(row);
  }
  return format_table(rows, {2, 3, 4, 5, 6});
}

}  // namespace

void print_recording_info(const fs::path& path, bool json, bool check) {
  const Recording recording = Recording::open(path);
  TerminalProgress progress;
  if (check) recording.check(progress);
  const RecordingSummary summary = summarise(recording);
  if (json) {
    Json all = {{"format", Recording::kFormat},
                {"version", recording.directory().manifest().at("version")},
                {"is_checked", check}};
    const Json parts = to_json(summary);
    for (const auto& [key, value] : parts.items()) all[key] = value;
    for (size_t s = 0; s < recording.sessions().size(); ++s)
      all["sessions"][s]["unit_names"] = recording.sessions()[s].units;
    all["splits"] = Json::array();
    for (const RecordingSplit& split : recording.splits())
      all["splits"].push_back({{"name", split.name}, {"how", split.how}});
    all["fingerprint"] = recording.fingerprint().to_json();
    all["made_by"] = recording.directory().manifest().value("made_by", Json());
    fmt::print("{}\n", all.dump(2));
    return;
  }
  uint64_t frames = 0, units = 0;
  for (const SessionSummary& one : summary.sessions) {
    frames += one.frames;
    units += one.units;
  }
  fmt::print("{}: {}, {} sessions, {} units, {} frames, {}\n\n{}\n{}{}\n{}", path.string(),
             Recording::kFormat, summary.sessions.size(), with_commas(units), with_commas(frames),
             format_bytes(summary.bytes), sessions_table(summary), fields_table(summary),
             wide_stimuli(summary), splits_table(recording));
  fmt::print("\nfingerprint {}\n", hex(recording.fingerprint().value()));
  if (check) fmt::print("\nchecked: every byte is as the manifest says\n");
}

}  // namespace lacuna::cli
