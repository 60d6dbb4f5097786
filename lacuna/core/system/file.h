// Files, with errors that name them. Paths are std::filesystem::path; all functions throw Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lacuna/core/hash.h"

namespace lacuna {

namespace fs = std::filesystem;

// A file mapped for reading. The bytes stay valid as long as a copy of owner() lives.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

// A new file, written in order. Nothing is durable before close(), which flushes it to the disk; a
// FileWriter that is destroyed unclosed leaves what was written, for the caller to remove.
class FileWriter {
 public:
  explicit FileWriter(const fs::path& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Overwrites bytes at the start of the file (a header whose counts were not known before).
  void write_at_start(std::span<const std::byte> bytes);
  void close();  // write out, fsync, close

  uint64_t size() const { return size_; }
  const fs::path& path() const { return path_; }

 private:
  void flush();

  fs::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string buffer_;
};

// A file that appears as a whole or not at all:
//
//   AtomicFile file(path);
//   FileWriter writer(file.temporary());  // beside path, a name that nobody else has
//   ...
//   writer.close();
//   file.commit();
//
// Unless commit() is reached, the file at temporary() is removed and `path` stays as it was. Of
// several that write one path at once the last to commit wins.
class AtomicFile {
 public:
  explicit AtomicFile(const fs::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const fs::path& path() const { return path_; }
  const fs::path& temporary() const { return temporary_; }
  // Renames it, durably. Its bytes must have been flushed (FileWriter::close() does).
  void commit();

 private:
  fs::path path_, temporary_;
  bool is_committed_ = false;
};

// Writes all of `bytes` at a place of an open file, interrupted or not. `path` is for messages.
void write_at(int fd, std::span<const std::byte> bytes, uint64_t place, const fs::path& path);
std::string read_text(const fs::path& path);
// Replaces or creates `path` so that a reader, or a machine that loses power, sees the old text or
// the new, never a part.
void write_text_atomically(const fs::path& path, std::string_view text);
void sync_directory(const fs::path& directory);
// XXH3 of the whole file, read in pieces (memory stays flat); `advance` gets the bytes so far.
uint64_t hash_file(const fs::path& path, const std::function<void(uint64_t)>& advance = {});
// On the file system that holds path, for this user.
uint64_t free_disk_bytes(const fs::path& path);

}  // namespace lacuna
