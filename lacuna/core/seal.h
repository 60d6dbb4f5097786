// Text files that carry a checksum of their own, so that a damaged one is never taken for whole:
// manifests, the JSON files of a run, its config.
//
//   {
//     "format": "lacuna.run",
//     ...
//     "checksum": "xxh3:0123456789abcdef"
//   }
//
// The checksum is XXH3 of all bytes before the line (in one-line JSON: the member) that holds it.
// In YAML it is the first line, and covers all bytes after it: YAML that is cut short may still be
// valid (JSON is not), so its seal must not stand at the end.
//
// A file written before there were seals has none: it opens, as "not checked". So does one whose
// checksum line somebody deleted, which is how to change a file by hand on purpose. A checksum line
// that is itself damaged counts as a broken seal, not as a missing one.
#pragma once

#include <string>
#include <string_view>

#include "lacuna/core/text/json.h"

namespace lacuna {

enum class Seal { intact, none, broken };

// The object as text with its seal, ending in a line break. Members keep their order; one named
// "checksum" is replaced.
std::string sealed_json(Json object);
// The same as one line of a .jsonl file, without line break.
std::string sealed_json_line(Json object);
// Text in which '#' begins a comment (YAML), with its seal as the first line: "# checksum xxh3:..."
std::string sealed_yaml(std::string text);

Seal seal_of_json(std::string_view text);
Seal seal_of_json_line(std::string_view line);
Seal seal_of_yaml(std::string_view text);

// "its bytes have changed since lacuna wrote it ..., restore it, or ...": follows the file's name
// in a message.
std::string broken_seal_words();

struct SealedJson {
  Json json;                // without the member "checksum"
  bool is_checked = false;  // false: a file without a seal
};
// Throws Error that names the file where it cannot be read, is not JSON, or its seal is broken.
SealedJson read_sealed_json(const fs::path& path);
// The same for a text; `where` names it in messages.
SealedJson parse_sealed_json(std::string_view text, std::string_view where);
void write_sealed_json(const fs::path& path, const Json& object);  // atomically

// The text of a YAML file without its seal. Throws Error that names the file when that is broken.
std::string read_sealed_yaml(const fs::path& path);

}  // namespace lacuna
