#include "lacuna/run/json_file.h"

#include <limits>

namespace lacuna {
namespace {

bool has(const Json& json, const char* key) {
  return json.contains(key) && !json.at(key).is_null();
}

}  // namespace

double number_of(const Json& json, const char* key) {
  return has(json, key) ? json.at(key).get<double>() : std::numeric_limits<double>::quiet_NaN();
}

uint64_t count_of(const Json& json, const char* key) {
  return has(json, key) ? json.at(key).get<uint64_t>() : 0;
}

std::string text_of(const Json& json, const char* key) {
  if (!has(json, key)) return "";
  const Json& value = json.at(key);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string data_path_of(const Json& json) {
  for (const char* kind : {"screen", "recording"})
    if (json.contains(kind)) return text_of(json.at(kind), "path");
  return "";
}

Fingerprint data_fingerprint_of(const Json& json) {
  for (const char* kind : {"screen", "recording"}) {
    if (!json.contains(kind)) continue;
    const Json& data = json.at(kind);
    if (data.contains("fingerprint") && data.at("fingerprint").is_object())
      return Fingerprint::from_json(data.at("fingerprint"));
  }
  return {};
}

void check_format(const fs::path& file, const Json& json, const char* format) {
  const std::string found = json.at("format").get<std::string>();
  if (found != format) throw Error("{} says format '{}', not '{}'", file.string(), found, format);
  if (const int version = json.at("version").get<int>(); version > 1)
    throw Error(
        "{} was written by a newer Lacuna (version {} of {}, this one reads version 1); use that "
        "one",
        file.string(), version, format);
}

}  // namespace lacuna
