#include "lacuna/store/directory.h"

#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {
namespace {

// A manifest may be forged: the files it names must lie inside its directory.
void check_inside(const std::string& file) {
  const fs::path path(file);
  bool inside = !file.empty() && path.is_relative();
  for (const auto& step : path) inside = inside && step != ".." && step != "." && !step.empty();
  if (!inside)
    throw Error("'{}' is not the name of a file inside the directory; use names such as a/b.npy",
                file);
}

// A folder that is a link may lead out of the directory: nothing is written or removed there.
void check_folders(const fs::path& directory, const std::string& file) {
  fs::path folder = directory;
  for (const auto& step : fs::path(file).parent_path()) {
    folder /= step;
    if (fs::is_symlink(folder))
      throw Error(
          "{}: a link; what belongs into the directory would be elsewhere; replace it by a "
          "folder",
          folder.string());
  }
}

FileEntry entry_from_json(const Json& json) {
  FileEntry entry;
  entry.bytes = json.at("bytes").get<uint64_t>();
  entry.xxh3 = hash_from_hex(json.at("xxh3").get<std::string>());
  entry.is_array = json.contains("dtype");
  if (!entry.is_array) return entry;
  entry.dtype = dtype_from_name(json.at("dtype").get<std::string>());
  entry.shape = json.at("shape").get<Shape>();
  return entry;
}

Json entry_to_json(const FileEntry& entry) {
  Json json;
  if (entry.is_array) {
    json["dtype"] = name(entry.dtype);
    json["shape"] = entry.shape;
  }
  json["bytes"] = entry.bytes;
  json["xxh3"] = hex(entry.xxh3);
  return json;
}

uint64_t total_bytes(const std::map<std::string, FileEntry>& files) {
  uint64_t total = 0;
  for (const auto& [file, entry] : files) total += entry.bytes;
  return total;
}

std::string shape_text(DType dtype, const Shape& shape) {
  return fmt::format("{} [{}]", name(dtype), fmt::join(shape, ", "));
}

void check_size(const fs::path& path, uint64_t expected) {
  std::error_code error;
  const uint64_t found = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory)
    throw Error("{}: missing; restore it or make the directory again", path.string());
  if (error) throw Error("{}: cannot read its size: {}", path.string(), error.message());
  if (found != expected)
    throw Error("{}: {} bytes, {} expected by the manifest; restore it or make it again",
                path.string(), found, expected);
}

// Makes the directory and its missing parents so that they survive a loss of power.
void create_directory_durably(const fs::path& path) {
  if (path.empty() || fs::is_directory(path)) return;
  create_directory_durably(path.parent_path());
  std::error_code error;
  fs::create_directory(path, error);
  if (error) throw Error("{}: cannot create the directory: {}", path.string(), error.message());
  sync_directory(path.parent_path());
}

std::vector<fs::path> children(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    paths.push_back(at->path());
  if (error) throw Error("{}: cannot list the directory: {}", directory.string(), error.message());
  return paths;
}

// What an interrupted run left may be replaced; anything else may not.
void check_replaceable(const fs::path& path, const DirectoryFormat& format, bool is_discarded) {
  if (!fs::is_directory(path))
    throw Error("{}: a file is there; choose another name", path.string());
  if (is_there(path / kManifest))
    throw Error("{}: already there and finished; delete it or choose another name", path.string());
  if (const auto partial = load_partial_manifest(path)) {
    std::string found;
    read_manifest(path, [&] { found = partial->at("format"); });
    if (found != format.name)
      throw Error("{}: an unfinished {} is there, not a {}; delete it or choose another name",
                  path.string(), found, format.name);
    if (is_discarded) check_holds_only(path, format);
    return;
  }
  for (const auto& child : children(path))
    if (!child.filename().string().starts_with(std::string(kPartialManifest) + "."))
      throw Error("{}: already there and not empty ({}); choose another name", path.string(),
                  child.filename().string());
}

void check_line(const std::string& line, const std::string& file, size_t number) {
  if (line.find_first_of("\n\r") != line.npos)
    throw Error("line {} of {} would hold a line break; rename it", number, file);
  if (!simdjson::validate_utf8(line.data(), line.size()))
    throw Error("line {} of {} would not be valid UTF-8; rename it", number, file);
}

}  // namespace

std::string Directory::format_of(const fs::path& path) {
  const Json manifest = load_manifest(path).json;
  std::string format;
  read_manifest(path, [&] { format = manifest.at("format").get<std::string>(); });
  return format;
}

Directory Directory::open(const fs::path& path, const std::string& format, int newest_version) {
  auto contents = std::make_shared<Contents>();
  contents->manifest = load_manifest(path);
  read_manifest(path, [&] {
    const Json& manifest = contents->manifest.json;
    const auto found = manifest.at("format").get<std::string>();
    if (found != format) throw Error("{}: a {}, not a {}", path.string(), found, format);
    const auto version = manifest.at("version").get<int64_t>();
    if (version > newest_version)
      throw Error("{}: {} version {}, but this program reads up to version {}; update lacuna",
                  path.string(), format, version, newest_version);
    if (version < 1) throw Error("{}: version {} does not exist", path.string(), version);
    for (const auto& [file, json] : manifest.at("files").items()) {
      check_inside(file);
      const FileEntry entry = entry_from_json(json);
      check_size(path / file, entry.bytes);
      contents->files[file] = entry;
    }
  });
  Directory directory;
  directory.path_ = path;
  directory.contents_ = std::move(contents);
  return directory;
}

uint64_t Directory::bytes() const { return total_bytes(files()); }

Array Directory::array(const std::string& file) const {
  const auto found = files().find(file);
  if (found == files().end() || !found->second.is_array)
    throw Error("{}: manifest.json names no array {}", path_.string(), file);
  const FileEntry& entry = found->second;
  const Array array = read_npy(path_ / file);
  const bool is_bf16 = entry.dtype == DType::bf16 && array.dtype() == DType::u16;
  if (array.shape() != entry.shape || (array.dtype() != entry.dtype && !is_bf16))
    throw Error("{}: holds {}, but the manifest says {}; restore it or make it again",
                (path_ / file).string(), shape_text(array.dtype(), array.shape()),
                shape_text(entry.dtype, entry.shape));
  if (!is_bf16) return array;
  const auto owner = std::make_shared<const Array>(array);
  return Array(DType::bf16, entry.shape, array.bytes().data(), owner);
}

std::vector<std::string> Directory::lines(const std::string& file) const {
  if (!has(file)) throw Error("{}: manifest.json names no file {}", path_.string(), file);
  const std::string text = read_text(path_ / file);
  if (!simdjson::validate_utf8(text.data(), text.size()))
    throw Error("{}: not valid UTF-8; restore it or make it again", (path_ / file).string());
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

void Directory::check(Progress& progress) const {
  progress.begin("checking", bytes(), "bytes");
  uint64_t done = 0;
  for (const auto& [file, entry] : files()) {
    check_file(file, [&](uint64_t read) {
      throw_if_stopped();
      progress.advance(done + read);
    });
    done += entry.bytes;
  }
  progress.end();
}

void Directory::check_file(const std::string& file,
                           const std::function<void(uint64_t)>& advance) const {
  if (!has(file)) throw Error("{}: manifest.json names no file {}", path_.string(), file);
  const FileEntry& entry = files().at(file);
  check_size(path_ / file, entry.bytes);
  const uint64_t hash = hash_file(path_ / file, advance);
  if (hash == entry.xxh3) return;
  throw Error("{}: its bytes have changed (checksum {}, {} expected); restore it or make it again",
              (path_ / file).string(), hex(hash), hex(entry.xxh3));
}

void DirectoryWriter::check_path(const fs::path& path, const DirectoryFormat& format,
                                 Leftover leftover, const DirectoryLock* held) {
  if (!is_there(path)) return;
  std::unique_ptr<DirectoryLock> own;
  if (!held && fs::is_directory(path)) own = lock(path);
  check_replaceable(path, format, leftover == Leftover::discard);
}

std::unique_ptr<DirectoryLock> DirectoryWriter::lock(const fs::path& path) {
  if (auto lock = DirectoryLock::attempt(path, DirectoryLock::Use::writing)) return lock;
  throw Error(
      "{}: in use by another program that reads it or writes to it{}; wait until it has ended, or "
      "choose another name",
      path.string(), writer_in_words(path));
}

std::optional<Json> DirectoryWriter::unfinished_purpose(const fs::path& path) {
  const auto partial = load_partial_manifest(path);
  if (!partial) return std::nullopt;
  Json purpose;
  read_manifest(path, [&] { purpose = partial->at("whose"); });
  return purpose;
}

std::optional<std::string> DirectoryWriter::unfinished_format(const fs::path& path) {
  const auto partial = load_partial_manifest(path);
  if (!partial) return std::nullopt;
  std::string format;
  read_manifest(path, [&] { format = partial->at("format"); });
  return format;
}

void DirectoryWriter::reopen(const fs::path& path, const Json& purpose) {
  const Json manifest = load_manifest(path).json;
  read_manifest(path, [&] {
    write_partial_manifest(path, manifest.at("format"), manifest.at("version").get<int>(), purpose);
  });
  fs::remove(path / kManifest);
  sync_directory(path);
}

DirectoryWriter::DirectoryWriter(const fs::path& path, const DirectoryFormat& format,
                                 const Json& purpose, Leftover leftover, const DirectoryLock* held)
    : path_(path.has_filename() ? path : path.parent_path()), format_(format) {
  check_path(path_, format, leftover, held);
  create_directory_durably(path_);
  if (!held) {
    lock_ = lock(path_);
    check_path(path_, format, leftover, lock_.get());  // again: another may have been quicker
  }
  write_partial_manifest(path_, format.name, format.version, purpose);
  if (leftover == Leftover::discard) remove_files(path_, format);
}

uint64_t DirectoryWriter::bytes() const { return total_bytes(files_); }

fs::path DirectoryWriter::prepare(const std::string& file) {
  check_inside(file);
  LACUNA_ASSERT(format_.writes(file));
  if (files_.contains(file))
    throw Error("{}: two things would be stored as {}; rename one of them", path_.string(), file);
  const fs::path path = path_ / file;
  check_folders(path_, file);
  create_directory_durably(path.parent_path());
  if (fs::is_symlink(path)) fs::remove(path);  // never write through it
  return path;
}

void DirectoryWriter::record(const std::string& file, FileEntry entry) {
  entry.bytes = fs::file_size(path_ / file);
  files_[file] = std::move(entry);
}

void DirectoryWriter::add_array(const std::string& file, const Array& array) {
  const uint64_t hash = write_npy(prepare(file), array);
  record(file, {.xxh3 = hash, .is_array = true, .dtype = array.dtype(), .shape = array.shape()});
}

void DirectoryWriter::add_lines(const std::string& file, const std::vector<std::string>& lines) {
  FileWriter writer(prepare(file));
  Hasher hasher;
  const auto write = [&](std::string_view text) {
    writer.write(text);
    hasher.add(text);
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    check_line(lines[i], file, i + 1);
    write(lines[i]);
    write("\n");
  }
  writer.close();
  record(file, {.xxh3 = hasher.value()});
}

NpyWriter DirectoryWriter::open_array(const std::string& file, DType dtype, Shape row_shape) {
  return NpyWriter(prepare(file), dtype, std::move(row_shape));
}

void DirectoryWriter::add_array(const std::string& file, NpyWriter& writer) {
  const uint64_t hash = writer.close();
  record(file, {.xxh3 = hash, .is_array = true, .dtype = writer.dtype(), .shape = writer.shape()});
}

void DirectoryWriter::add_file(const std::string& file) {
  const fs::path path = prepare(file);
  record(file, {.xxh3 = hash_file(path)});
}

void DirectoryWriter::commit(const Json& extra) {
  Json manifest = {
      {"format", format_.name}, {"version", format_.version}, {"files", Json::object()}};
  std::set<fs::path> folders;
  for (const auto& [file, entry] : files_) {
    manifest["files"][file] = entry_to_json(entry);
    folders.insert((path_ / file).parent_path());
  }
  for (const auto& [key, value] : extra.items()) manifest[key] = value;
  for (const auto& folder : folders) sync_directory(folder);
  write_sealed_json(path_ / kManifest, manifest);
  fs::remove(path_ / kPartialManifest);
  sync_directory(path_);
  lock_.reset();
}

void add_array_to(const fs::path& directory, const std::string& file, const Array& array,
                  const std::function<void(Json& manifest)>& change) {
  load_manifest(directory);  // says what is wrong with it, if anything
  const DirectoryLock lock(directory, DirectoryLock::Use::writing, DirectoryLock::Wait::yes);
  SealedJson manifest = load_manifest(directory);
  const fs::path path = directory / file;
  check_inside(file);
  check_folders(directory, file);
  read_manifest(directory, [&] {
    if (manifest.json.at("files").contains(file))
      throw Error("{}: has a file {} already; choose another name", directory.string(), file);
    change(manifest.json);
  });
  create_directory_durably(path.parent_path());
  AtomicFile whole(path);
  const uint64_t hash = write_npy(whole.temporary(), array);
  whole.commit();
  manifest.json["files"][file] = entry_to_json({.bytes = fs::file_size(path),
                                                .xxh3 = hash,
                                                .is_array = true,
                                                .dtype = array.dtype(),
                                                .shape = array.shape()});
  replace_manifest(directory, manifest);
}

void replace_lines_in(const fs::path& directory, const std::string& old_file,
                      const std::string& file, const std::vector<std::string>& lines,
                      const std::function<void(Json& manifest)>& change) {
  load_manifest(directory);  // says what is wrong with it, if anything
  const DirectoryLock lock(directory, DirectoryLock::Use::writing, DirectoryLock::Wait::yes);
  SealedJson manifest = load_manifest(directory);
  check_inside(file);
  check_folders(directory, file);
  read_manifest(directory, [&] {
    Json& files = manifest.json.at("files");
    if (files.contains(file))
      throw Error("{}: has a file {} already; choose another name", directory.string(), file);
    if (!old_file.empty() && files.erase(old_file) == 0)
      throw Error("{}: has no file {} any more", directory.string(), old_file);
    change(manifest.json);
  });
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    check_line(lines[i], file, i + 1);
    text += lines[i] + "\n";
  }
  AtomicFile whole(directory / file);
  FileWriter writer(whole.temporary());
  writer.write(text);
  writer.close();
  whole.commit();
  manifest.json["files"][file] =
      entry_to_json({.bytes = text.size(), .xxh3 = hash64(std::as_bytes(std::span(text)))});
  replace_manifest(directory, manifest);
  if (!old_file.empty()) fs::remove(directory / old_file);
}

void remove_file_from(const fs::path& directory, const std::string& file,
                      const std::function<void(Json& manifest)>& change) {
  load_manifest(directory);  // says what is wrong with it, if anything
  const DirectoryLock lock(directory, DirectoryLock::Use::writing, DirectoryLock::Wait::yes);
  SealedJson manifest = load_manifest(directory);
  check_inside(file);
  check_folders(directory, file);
  read_manifest(directory, [&] {
    if (manifest.json.at("files").erase(file) == 0)
      throw Error("{}: has no file {} any more", directory.string(), file);
    change(manifest.json);
  });
  replace_manifest(directory, manifest);
  fs::remove(directory / file);
}

}  // namespace lacuna
