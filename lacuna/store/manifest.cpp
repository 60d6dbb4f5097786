#include "lacuna/store/manifest.h"

#include <unistd.h>

#include "lacuna/core/error.h"
#include "lacuna/core/system/file.h"

namespace lacuna {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (error) throw Error("{}: cannot look at it: {}", path.string(), error.message());
  return true;
}

SealedJson load_manifest(const fs::path& directory) {
  if (!is_there(directory)) throw Error("{}: no such directory", directory.string());
  if (!fs::is_directory(directory))
    throw Error("{}: a file; screens, recordings and stores are directories with a manifest.json",
                directory.string());
  if (is_there(directory / kManifest)) return read_sealed_json(directory / kManifest);
  if (is_there(directory / kPartialManifest))
    throw Error("{}: unfinished, the run that wrote it was interrupted; run it again or delete it",
                directory.string());
  throw Error("{}: not a screen, a recording or a store: it has no manifest.json",
              directory.string());
}

void replace_manifest(const fs::path& directory, const SealedJson& manifest) {
  const fs::path path = directory / kManifest;
  if (manifest.is_checked) return write_sealed_json(path, manifest.json);
  write_text_atomically(path, manifest.json.dump(2) + "\n");
}

void read_manifest(const fs::path& directory, const std::function<void()>& read) {
  try {
    read();
  } catch (const Json::exception& error) {
    const std::string_view words = error.what();  // "[json.exception.type_error.302] type must..."
    const size_t end = words.find("] ");
    throw Error("{}: manifest.json is damaged: {}", directory.string(),
                end == words.npos ? words : words.substr(end + 2));
  }
}

std::optional<Json> load_partial_manifest(const fs::path& directory) {
  if (is_there(directory / kManifest) || !is_there(directory / kPartialManifest))
    return std::nullopt;
  return read_sealed_json(directory / kPartialManifest).json;
}

void write_partial_manifest(const fs::path& directory, const std::string& format, int version,
                            const Json& purpose) {
  const Json partial = {{"format", format},
                        {"version", version},
                        {"writer", {{"process", ::getpid()}, {"host", host_name()}}},
                        {"whose", purpose}};
  write_sealed_json(directory / kPartialManifest, partial);
}

std::string writer_in_words(const fs::path& directory) {
  try {
    const Json partial = read_sealed_json(directory / kPartialManifest).json;
    const Json& writer = partial.at("writer");
    const Json& purpose = partial.at("whose");
    const std::string command = purpose.is_object() ? purpose.value("command", "") : "";
    return fmt::format(" (process {} on {}{}{})", writer.at("process").get<int64_t>(),
                       writer.at("host").get<std::string>(), command.empty() ? "" : ": ", command);
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace lacuna
