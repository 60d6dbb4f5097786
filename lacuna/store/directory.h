// A directory with a manifest: what a screen, a recording and a store are on disk
// (docs/formats.md).
//
// manifest.json holds "format" and "version", "files" (dtype, shape, bytes and XXH3 of every file),
// "made_by" (command, settings, source files), whatever its owner adds, and a checksum of itself.
// It is written last, by rename: a directory without one is unfinished, whatever else lies in it,
// and is refused by everything that reads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"
#include "lacuna/core/system/progress.h"
#include "lacuna/core/text/json.h"
#include "lacuna/store/directory_format.h"
#include "lacuna/store/directory_lock.h"
#include "lacuna/store/manifest.h"
#include "lacuna/store/npy.h"

namespace lacuna {

struct FileEntry {
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;
  bool is_array = false;  // else plain bytes or text; dtype and shape mean nothing
  DType dtype = DType::u8;
  Shape shape = {};
};

// A finished directory, open for reading. Cheap to copy.
class Directory {
 public:
  // Reads the manifest and checks the size of every file named in it (not their bytes: see
  // check()). Throws Error when path is not a directory, is unfinished, is of another format, was
  // made by a newer version, has a damaged manifest, or lacks bytes.
  static Directory open(const fs::path& path, const std::string& format, int newest_version);
  // What kind of directory this is ("lacuna.screen", ...), from its manifest.
  static std::string format_of(const fs::path& path);

  const fs::path& path() const { return path_; }
  const Json& manifest() const { return contents_->manifest.json; }
  // False where the manifest has no checksum: it was written before manifests had them, or somebody
  // took it away to change something on purpose.
  bool is_manifest_checked() const { return contents_->manifest.is_checked; }
  const std::map<std::string, FileEntry>& files() const { return contents_->files; }
  bool has(const std::string& file) const { return files().contains(file); }
  uint64_t bytes() const;  // of all files named in the manifest

  // The array of this file, mapped; its dtype and shape are those of the manifest, or an Error says
  // what differs.
  Array array(const std::string& file) const;
  std::vector<std::string> lines(const std::string& file) const;
  // Reads every byte of every file and compares with the manifest; Error names the first file that
  // differs.
  void check(Progress& progress) const;
  // The same of one file; advance: with the bytes read so far.
  void check_file(const std::string& file,
                  const std::function<void(uint64_t read)>& advance = {}) const;

 private:
  struct Contents {
    SealedJson manifest;
    std::map<std::string, FileEntry> files;
  };
  fs::path path_;
  std::shared_ptr<const Contents> contents_;
};

// A directory being written. Refuses a path that exists, unless it is empty or an unfinished
// directory of the same format (what an interrupted run left), which is started afresh, or
// continued (Leftover::keep). Files that the format does not write are never removed: a directory
// that holds one is not started afresh. Unless commit() is reached the directory stays unfinished
// on disk: manifest.partial.json, the first file written, states its format, its writer and what it
// is to hold (`purpose`; "whose" in the file).
//
// One writer at a time: it has the directory's lock until commit() or its own end, and a second one
// throws Error that names the first. A caller that has the lock() already passes it in and keeps
// it.
//
// File names are relative to path(), with '/' between folders, and match the format's patterns.
class DirectoryWriter {
 public:
  enum class Leftover { discard, keep };  // the files of an unfinished directory
  DirectoryWriter(const fs::path& path, const DirectoryFormat& format,
                  const Json& purpose = Json::object(), Leftover leftover = Leftover::discard,
                  const DirectoryLock* held = nullptr);
  // Throws what the constructor would throw for this path: for callers with long work before it.
  static void check_path(const fs::path& path, const DirectoryFormat& format,
                         Leftover leftover = Leftover::discard,
                         const DirectoryLock* held = nullptr);
  static std::unique_ptr<DirectoryLock> lock(const fs::path& path);
  // The purpose and the format of an unfinished directory; nothing where there is none, or a
  // finished one.
  static std::optional<Json> unfinished_purpose(const fs::path& path);
  static std::optional<std::string> unfinished_format(const fs::path& path);
  // Turns a finished directory back into an unfinished one with all its files, to be continued or
  // started afresh. The caller has its lock().
  static void reopen(const fs::path& path, const Json& purpose);

  const fs::path& path() const { return path_; }
  uint64_t bytes() const;  // of all files so far
  void add_array(const std::string& file, const Array& array);
  void add_lines(const std::string& file, const std::vector<std::string>& lines);
  // For arrays written row by row: open, append, then add_array(file, writer) closes and adds it.
  NpyWriter open_array(const std::string& file, DType dtype, Shape row_shape);
  void add_array(const std::string& file, NpyWriter& writer);
  // Adds a file that was written under path() by other means, and flushed.
  void add_file(const std::string& file);
  // Writes the manifest: `extra`'s members after format, version and files. The directory is
  // finished and durable.
  void commit(const Json& extra);

 private:
  fs::path prepare(const std::string& file);  // full path, parent made
  void record(const std::string& file, FileEntry entry);

  fs::path path_;
  DirectoryFormat format_;
  std::unique_ptr<DirectoryLock> lock_;
  std::map<std::string, FileEntry> files_;
};

// Adds an array to a finished directory: the array first, then, by rename, the manifest as
// change() leaves it. A reader sees the directory without the array or with it. Two that add at
// once take turns. A file or link in its place is replaced (a link is not followed); a folder that
// is a link is refused: it may lead out of the directory.
void add_array_to(const fs::path& directory, const std::string& file, const Array& array,
                  const std::function<void(Json& manifest)>& change);
// The same for lines of text, which take the place of `old_file` (empty: of none): that one is
// gone from the manifest, and then removed. The names differ, so that a reader always finds a whole
// one.
void replace_lines_in(const fs::path& directory, const std::string& old_file,
                      const std::string& file, const std::vector<std::string>& lines,
                      const std::function<void(Json& manifest)>& change);
// The reverse: first the manifest, as change() leaves it and without the file, then the file is
// removed.
void remove_file_from(const fs::path& directory, const std::string& file,
                      const std::function<void(Json& manifest)>& change);

}  // namespace lacuna
