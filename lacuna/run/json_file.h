// What reading the JSON files of a run has in common: their format, their seal, and members that an
// older version did not write.
#pragma once

#include <cstdint>
#include <string>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// A member that is missing or null; every other value of the wrong type throws Json::exception.
double number_of(const Json& json, const char* key);     // NaN
uint64_t count_of(const Json& json, const char* key);    // 0
std::string text_of(const Json& json, const char* key);  // empty; a value that is no text: as JSON

// {"screen": {"path": ..., "fingerprint": {...}}}, or "recording"; empty where a file does not say.
std::string data_path_of(const Json& json);
Fingerprint data_fingerprint_of(const Json& json);

// Throws Error where `json` is not of this format, or of a newer version than 1.
void check_format(const fs::path& file, const Json& json, const char* format);

// Reads a sealed file of this format and gives it to read(const SealedJson&). Throws Error that
// names the file where it is damaged: by its seal, or by what it says. remedy: what to do then.
template <class Read>
auto read_json_file(const fs::path& file, const char* format, const std::string& remedy,
                    const Read& read) {
  const SealedJson sealed = parse_sealed_json(read_text(file), file.string() + " is damaged");
  try {
    check_format(file, sealed.json, format);
    return read(sealed);
  } catch (const Json::exception& error) {
    throw Error("{} is damaged: {}; {}", file.string(), error.what(), remedy);
  }
}

}  // namespace lacuna
