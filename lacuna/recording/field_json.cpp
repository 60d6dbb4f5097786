#include "lacuna/recording/field_json.h"

#include <algorithm>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

Json field_to_json(const Field& field) {
  Json json = {{"name", field.name},
               {"role", name(field.role)},
               {"dtype", name(field.dtype)},
               {"shape", field.shape}};
  if (field.packed) json["packed"] = true;
  if (!field.recorded_as.empty()) json["recorded_as"] = field.recorded_as;
  if (field.place.in_place) json["in_place"] = field.place.file.string();
  json["offset"] = field.place.offset;
  json["xxh3"] = hex(field.xxh3);
  json["check_rows"] = field.check_rows;
  if (field.nan_rows > 0) json["nan_rows"] = field.nan_rows;
  return json;
}

// A manifest may be forged: sizes are products that must not wrap around.
void check_extents(const Field& field) {
  uint64_t bytes = item_size(field.dtype);
  for (const uint64_t extent : field.shape)
    if (extent == 0 || __builtin_mul_overflow(bytes, extent, &bytes) || bytes > uint64_t(1) << 60)
      throw Error("field '{}' is [{}], which no file can hold", field.name,
                  fmt::join(field.shape, ", "));
  if (field.place.offset > uint64_t(1) << 60 || field.place.offset % item_size(field.dtype) != 0)
    throw Error("field '{}' starts at byte {}, where it cannot", field.name, field.place.offset);
}

Field field_from_json(const Json& json, const fs::path& folder) {
  Field field;
  field.name = json.at("name").get<std::string>();
  check_part_name("field", field.name);
  field.role = field_role_from_name(json.at("role").get<std::string>());
  field.dtype = dtype_from_name(json.at("dtype").get<std::string>());
  field.shape = json.at("shape").get<Shape>();
  field.packed = json.value("packed", false);
  field.recorded_as = json.value("recorded_as", std::string());
  field.place.in_place = json.contains("in_place");
  field.place.file = field.place.in_place ? fs::path(json.at("in_place").get<std::string>())
                                          : folder / (field.name + ".npy");
  field.place.offset = json.at("offset").get<uint64_t>();
  field.xxh3 = hash_from_hex(json.at("xxh3").get<std::string>());
  field.check_rows = json.at("check_rows").get<uint64_t>();
  field.check_file = folder / (field.name + ".check.npy");
  field.nan_rows = json.value("nan_rows", uint64_t(0));
  if (field.nan_rows > 0) field.nan_file = folder / (field.name + ".nan.npy");
  if (field.shape.empty() || field.check_rows == 0 || (field.packed && field.dtype != DType::u8))
    throw Error("field '{}' has no rows, or none that can be checked", field.name);
  check_extents(field);
  return field;
}

// What readers rely on.
void check_role(const Session& session, const Field& field) {
  const bool is_by_unit = field.role == FieldRole::counts ||
                          (field.role == FieldRole::validity && field.shape.size() > 1);
  const bool is_a_number_a_row = field.role == FieldRole::trial || field.role == FieldRole::time ||
                                 field.role == FieldRole::stimulus_id;
  if ((is_by_unit && field.columns() != session.units.size()) ||
      (is_a_number_a_row && field.columns() != 1) ||
      (field.role == FieldRole::stimulus && (field.shape.size() < 2 || field.check_rows != 1)))
    throw Error("field '{}' of session '{}' is [{}], which does not fit its role {}", field.name,
                session.name, fmt::join(field.shape, ", "), name(field.role));
}

}  // namespace

std::string field_file(std::string_view session, std::string_view segment, std::string_view field,
                       std::string_view suffix) {
  return fmt::format("{}/{}/{}{}.npy", session, segment, field, suffix);
}

std::string truth_file(std::string_view session, std::string_view name) {
  return fmt::format("truth/{}.{}.npy", session, name);
}

Json to_json(const Session& session) {
  Json segments = Json::array();
  for (const Segment& segment : session.segments) {
    Json fields = Json::array();
    for (const Field& field : segment.fields) fields.push_back(field_to_json(field));
    segments.push_back({{"name", segment.name}, {"frames", segment.frames}, {"fields", fields}});
  }
  return {{"name", session.name},
          {"subject", session.subject},
          {"rate", session.rate},
          {"units", session.units},
          {"segments", segments}};
}

Session session_from_json(const Json& json, const fs::path& root) {
  Session session;
  session.name = json.at("name").get<std::string>();
  check_part_name("session", session.name);
  session.subject = json.at("subject").get<std::string>();
  session.rate = json.at("rate").get<double>();
  session.units = json.at("units").get<std::vector<std::string>>();
  if (!(session.rate > 0)) throw Error("session '{}' has a rate of {}", session.name, session.rate);
  for (const Json& entry : json.at("segments")) {
    Segment segment;
    segment.name = entry.at("name").get<std::string>();
    check_part_name("segment", segment.name);
    segment.frames = entry.at("frames").get<uint64_t>();
    for (const Json& field : entry.at("fields")) {
      segment.fields.push_back(field_from_json(field, root / session.name / segment.name));
      check_role(session, segment.fields.back());
      if (segment.fields.back().rows() != segment.frames)
        throw Error("field '{}' of {}/{} has {} rows, but the segment has {}",
                    segment.fields.back().name, session.name, segment.name,
                    segment.fields.back().rows(), segment.frames);
    }
    session.segments.push_back(std::move(segment));
  }
  return session;
}

void check_part_name(std::string_view kind, const std::string& name) {
  const bool has_control =
      std::any_of(name.begin(), name.end(), [](char c) { return uint8_t(c) < 0x20 || c == 0x7f; });
  const bool is_reserved = name.ends_with(".check") || name.ends_with(".nan") ||
                           (kind == "session" && (name == "splits" || name == "truth"));
  if (name.empty() || name.front() == '.' || name.size() > 200 || has_control || is_reserved ||
      name.find('/') != name.npos)
    throw Error("a {} cannot be named '{}': it names a file; use letters, digits, '-' and '_'",
                kind, name);
}

}  // namespace lacuna
