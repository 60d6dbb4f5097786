// The manifest of a directory (directory.h), as text: manifest.json of a finished one,
// manifest.partial.json of one that is being written. Both carry a checksum of their own
// (core/seal.h), so that names, counts and other files' checksums are never read from damaged text.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lacuna/core/seal.h"
#include "lacuna/core/text/json.h"

namespace lacuna {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kPartialManifest = "manifest.partial.json";

// Throws Error when there is no such directory, or it is unfinished, or its manifest damaged.
SealedJson load_manifest(const fs::path& directory);
// By rename. A manifest that had no checksum when it was loaded gets none: whether its bytes are
// those once written is not known.
void replace_manifest(const fs::path& directory, const SealedJson& manifest);

// Calls read(), which looks into the manifest of `directory`; a member that is missing or of
// another type than expected becomes an Error that names the manifest.
void read_manifest(const fs::path& directory, const std::function<void()>& read);

// Nothing where there is none, or the directory is finished.
std::optional<Json> load_partial_manifest(const fs::path& directory);
// States also the process and the host that write the directory.
void write_partial_manifest(const fs::path& directory, const std::string& format, int version,
                            const Json& purpose);
// " (process 4711 on node7: lacuna generate screen cc)"; empty where that cannot be read.
std::string writer_in_words(const fs::path& directory);

// Whether something is at this path, links followed. Throws Error where the system does not say.
bool is_there(const fs::path& path);

}  // namespace lacuna
