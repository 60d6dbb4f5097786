#include "lacuna/store/file_set.h"

#include <algorithm>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

constexpr const char* kNew = ".new";

fs::path new_name(fs::path path) { return path += kNew; }

bool has_bytes(const fs::path& path, const ListedFile& file) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != file.bytes || error)
    return false;
  return hash_file(path) == file.xxh3;
}

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw Error("{}: cannot rename it: {}", from.string(), error.message());
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw Error("{}: cannot remove it: {}", path.string(), error.message());
}

// Names lie in one folder beside the index: a damaged index must not lead elsewhere.
void check_name(const std::string& name) {
  const fs::path path = name;
  const bool is_plain = std::distance(path.begin(), path.end()) == 2 && path.is_relative() &&
                        *path.begin() != ".." && path.filename() != ".." &&
                        path.filename() != "." && path.has_filename();
  if (!is_plain) throw Error("it names a file '{}', which cannot be one of its own", name);
}

// The set that the index names; empty where it is missing, damaged or of an older version.
FileSet named_set(const fs::path& root, const std::string& index) {
  if (!fs::exists(root / index)) return {};
  try {
    return FileSet::from_index(root, read_sealed_json(root / index).json);
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return {};
}

}  // namespace

FileSet FileSet::from_files(const fs::path& root, std::vector<ListedFile> files) {
  FileSet set;
  set.root_ = root;
  set.files_ = std::move(files);
  return set;
}

FileSet FileSet::from_index(const fs::path& root, const Json& index) {
  std::vector<ListedFile> files;
  if (index.contains("files"))
    for (const auto& [name, file] : index.at("files").items()) {
      check_name(name);
      files.push_back({name, file.at("bytes").get<uint64_t>(),
                       hash_from_hex(file.at("xxh3").get<std::string>())});
    }
  return from_files(root, std::move(files));
}

const ListedFile* FileSet::listed(const std::string& name) const {
  const auto at = std::find_if(files_.begin(), files_.end(),
                               [&](const ListedFile& file) { return file.name == name; });
  return at == files_.end() ? nullptr : &*at;
}

fs::path FileSet::find(const std::string& name) const {
  const ListedFile* file = listed(name);
  if (!file)
    throw Error("{}: it is not among the files that were written", (root_ / name).string());
  const fs::path path = root_ / name;
  // Once more under its own name: another process may rename it just now.
  for (const fs::path& place : {path, new_name(path), path})
    if (has_bytes(place, *file)) return place;
  std::error_code error;
  if (!fs::exists(path, error)) throw Error("{} is missing", path.string());
  if (!fs::is_regular_file(path, error))
    throw Error("{} is damaged: not a regular file", path.string());
  throw Error("{} is damaged: its {} bytes are not the {} that were written", path.string(),
              fs::file_size(path, error), file->bytes);
}

void FileSet::check() const {
  for (const ListedFile& file : files_) find(file.name);
}

Json FileSet::to_json() const {
  Json files = Json::object();
  for (const ListedFile& file : files_)
    files[file.name] = {{"bytes", file.bytes}, {"xxh3", hex(file.xxh3)}};
  return files;
}

FileSetWriter::FileSetWriter(const fs::path& root, std::string index, std::string folder)
    : root_(root), index_(std::move(index)), folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(root_ / folder_, error);
  if (error) throw Error("cannot create {}: {}", (root_ / folder_).string(), error.message());
  if (fs::is_symlink(root_ / folder_))
    throw Error("{} is a link, which may lead anywhere; put a folder there",
                (root_ / folder_).string());
  lock_ = std::make_unique<DirectoryLock>(root_ / folder_, DirectoryLock::Use::writing,
                                          DirectoryLock::Wait::yes);
  // A writer that was killed after its step 3 is finished here; one killed earlier left only files
  // that no index names.
  const FileSet current = named_set(root_, index_);
  for (const ListedFile& file : current.files()) {
    const fs::path path = root_ / file.name;
    if (!has_bytes(path, file) && has_bytes(new_name(path), file))
      rename_file(new_name(path), path);
  }
  sync_directory(root_ / folder_);
}

FileSetWriter::~FileSetWriter() {
  if (is_committed_) return;
  std::error_code ignored;
  for (const ListedFile& file : added_) fs::remove(new_name(root_ / file.name), ignored);
}

void FileSetWriter::add(const std::string& name, const Array& array) {
  LACUNA_ASSERT(!is_committed_);
  const std::string inside = folder_ + "/" + name;
  check_name(inside);
  added_.push_back({inside, 0, 0});
  remove_file(new_name(path_of(name)));  // a link there would be written through
  added_.back().xxh3 = write_npy(new_name(path_of(name)), array);
  added_.back().bytes = fs::file_size(new_name(path_of(name)));
}

void FileSetWriter::commit(Json index, const std::function<bool(const std::string&)>& is_ours) {
  LACUNA_ASSERT(!is_committed_);
  const FileSet set = FileSet::from_files(root_, added_);
  index["files"] = set.to_json();
  sync_directory(root_ / folder_);
  try {
    write_sealed_json(root_ / index_, index);
  } catch (...) {  // perhaps the rename succeeded, and only the flush after it failed
    is_committed_ = named_set(root_, index_).files() == set.files();
    throw;
  }
  is_committed_ = true;
  for (const ListedFile& file : added_) {
    const fs::path path = root_ / file.name;
    rename_file(new_name(path), path);
  }
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(root_ / folder_)) {
    std::string name = entry.path().filename().string();
    if (set.listed(folder_ + "/" + name)) continue;
    if (name.ends_with(kNew)) name.resize(name.size() - std::string_view(kNew).size());
    if (is_ours(name)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) remove_file(path);
  sync_directory(root_ / folder_);
}

}  // namespace lacuna
