// Reads a plain or gzip file (its first two bytes tell which) from front to back.
//
// Several gzip files one after another are one (`cat a.gz b.gz`), and zeros after them are padding,
// as for gzip itself. Anything else after them is an Error with its place: the file was damaged.
//
// Throws Error that names the file: it cannot be read, is no regular file, is damaged or cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lacuna/core/system/file.h"

namespace lacuna {

class GzipFile {
 public:
  explicit GzipFile(const fs::path& path);
  ~GzipFile();

  // Reads the next bytes of the contents; returns how many: fewer than asked for only at the end.
  size_t read(std::span<char> bytes);
  uint64_t bytes_read() const;  // of the file on disk, compressed or not
  uint64_t bytes() const;       // of the whole file on disk

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
