#include "lacuna/recording/recording_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/trials.h"

namespace lacuna {
namespace {

constexpr uint64_t kRowsLookedAt = 64;

std::string dtype_words(const Field& field) {
  return field.packed ? "bits" : std::string(name(field.dtype));
}

void add_segment(const Session& session, const Segment& segment, SessionSummary& summary,
                 std::map<int64_t, uint64_t>& shown) {
  summary.frames += segment.frames;
  std::vector<int64_t> ids;
  if (const Field* field = segment.find(FieldRole::stimulus_id)) ids = read_whole_numbers(*field);
  std::set<int64_t> trials;
  uint64_t inside = 0;
  std::set<std::pair<int64_t, int64_t>> seen;  // (trial, stimulus)
  for (const Stretch& stretch : find_stretches(session, segment, 1.5)) {
    ++summary.stretches;
    trials.insert(stretch.trial);
    summary.longest = std::max(summary.longest, stretch.end - stretch.begin);
    inside += stretch.end - stretch.begin;
    for (uint64_t t = stretch.begin; t < stretch.end && !ids.empty(); ++t)
      if (ids[t] >= 0) seen.insert({stretch.trial, ids[t]});
  }
  for (const auto& [trial, stimulus] : seen) ++shown[stimulus];
  summary.trials += segment.find(FieldRole::trial) ? trials.size() : 0;
  summary.outside += segment.frames - inside;
  std::vector<uint8_t> is_invalid(segment.frames, 0), is_nan(segment.frames, 0);
  for (const Field& field : segment.fields) {
    summary.bytes += field.bytes();
    if (field.role == FieldRole::validity && field.shape.size() == 1) {
      const auto valid = read_numbers(field);
      for (uint64_t t = 0; t < segment.frames; ++t) is_invalid[t] |= uint8_t(valid[t] == 0);
    }
    if (field.nan_rows == 0) continue;
    const Array nan = read_nan_rows(field);
    for (uint64_t t = 0; t < segment.frames; ++t) is_nan[t] |= nan.as<uint8_t>()[t];
  }
  summary.invalid += uint64_t(std::count(is_invalid.begin(), is_invalid.end(), uint8_t(1)));
  summary.nan += uint64_t(std::count(is_nan.begin(), is_nan.end(), uint8_t(1)));
}

SessionSummary summarise_session(const Session& session) {
  SessionSummary summary;
  summary.name = session.name;
  summary.subject = session.subject;
  summary.rate = session.rate;
  summary.units = session.units.size();
  summary.segments = session.segments.size();
  std::map<int64_t, uint64_t> shown;  // trials by stimulus
  for (const Segment& segment : session.segments) add_segment(session, segment, summary, shown);
  summary.stimuli = shown.size();
  for (const auto& [stimulus, trials] : shown) summary.repeated += trials > 1;
  return summary;
}

bool holds_bytes_only(const Field& field) {
  const Array rows = field.map();
  std::vector<float> row(field.columns());
  for (uint64_t t = 0; t < std::min(field.rows(), kRowsLookedAt); ++t) {
    read_row(field, rows.bytes().data() + t * field.row_bytes(), row.data());
    if (!std::all_of(row.begin(), row.end(), is_byte_value)) return false;
  }
  return true;
}

// What is collected of the fields of one name.
struct FieldCollection {
  FieldSummary summary;
  std::set<std::string> dtypes, recorded_as;
  std::set<Shape> row_shapes;
  bool is_u8_in_disguise = true;

  void add(const Field& field) {
    summary.name = field.name;
    summary.role = name(field.role);
    dtypes.insert(dtype_words(field));
    if (!field.recorded_as.empty()) recorded_as.insert(field.recorded_as);
    row_shapes.insert(Shape(field.shape.begin() + 1, field.shape.end()));
    ++summary.segments;
    summary.rows += field.rows();
    summary.bytes += field.bytes();
    summary.nan_rows += field.nan_rows;
    summary.in_place += field.place.in_place;
    if (field.role != FieldRole::stimulus || field.dtype == DType::u8) return;
    summary.bytes_as_u8 += field.rows() * field.columns();
    is_u8_in_disguise &= holds_bytes_only(field);
  }
  FieldSummary finish() {
    summary.dtype = fmt::format("{}", fmt::join(dtypes, ", "));
    summary.recorded_as = fmt::format("{}", fmt::join(recorded_as, ", "));
    summary.is_u8_in_disguise = summary.bytes_as_u8 > 0 && is_u8_in_disguise;
    std::vector<std::string> words;
    for (const Shape& shape : row_shapes)
      words.push_back(shape.empty() ? "1" : fmt::format("{}", fmt::join(shape, " x ")));
    const bool is_width =
        std::ranges::all_of(row_shapes, [](const Shape& s) { return s.size() == 1; });
    summary.row_shape = words.size() == 1 ? words[0]
                        : is_width        ? fmt::format("{} to {}", words.front(), words.back())
                                          : fmt::format("{}", fmt::join(words, ", "));
    return summary;
  }
};

}  // namespace

bool is_byte_value(float value) {
  if (value >= 0 && value <= 255 && value == std::floor(value)) return true;
  const float k = std::round(value * 255.0f + 127.0f);
  return k >= 0 && k <= 255 && (k - 127.0f) / 255.0f == value;
}

RecordingSummary summarise(const Recording& recording) {
  RecordingSummary summary;
  summary.bytes = recording.bytes();
  std::vector<std::string> order;
  std::map<std::string, FieldCollection> fields;
  for (const Session& session : recording.sessions()) {
    summary.sessions.push_back(summarise_session(session));
    for (const Segment& segment : session.segments)
      for (const Field& field : segment.fields) {
        if (!fields.contains(field.name)) order.push_back(field.name);
        fields[field.name].add(field);
      }
  }
  for (const std::string& name : order) summary.fields.push_back(fields.at(name).finish());
  return summary;
}

Json to_json(const RecordingSummary& summary) {
  Json json = {{"bytes", summary.bytes}, {"sessions", Json::array()}, {"fields", Json::array()}};
  for (const SessionSummary& one : summary.sessions)
    json["sessions"].push_back({{"name", one.name},
                                {"subject", one.subject},
                                {"rate", one.rate},
                                {"units", one.units},
                                {"segments", one.segments},
                                {"frames", one.frames},
                                {"bytes", one.bytes},
                                {"trials", one.trials},
                                {"stretches", one.stretches},
                                {"longest", one.longest},
                                {"stimuli", one.stimuli},
                                {"repeated", one.repeated},
                                {"outside", one.outside},
                                {"invalid", one.invalid},
                                {"nan", one.nan}});
  for (const FieldSummary& one : summary.fields) {
    Json field = {
        {"name", one.name},           {"role", one.role},         {"dtype", one.dtype},
        {"row_shape", one.row_shape}, {"segments", one.segments}, {"rows", one.rows},
        {"bytes", one.bytes},         {"nan_rows", one.nan_rows}, {"in_place", one.in_place}};
    if (!one.recorded_as.empty()) field["recorded_as"] = one.recorded_as;
    if (one.bytes_as_u8 > 0) {
      field["bytes_as_u8"] = one.bytes_as_u8;
      field["is_u8_in_disguise"] = one.is_u8_in_disguise;
    }
    json["fields"].push_back(field);
  }
  return json;
}

}  // namespace lacuna
