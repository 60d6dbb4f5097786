// Reading a file that is plain or gzip, which its first two bytes tell, from front to back.
//
// Several gzip files one behind the other are one (`cat a.gz b.gz`), and zeros behind them are
// padding, as for gzip itself. Anything else behind them is an Error with its place: what begins as
// gzip and goes on as something else was damaged.
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

  // The next bytes of the contents; how many: less than there is room for only at the end.
  size_t read(std::span<char> bytes);
  uint64_t bytes_read() const;  // of the file as it lies on disk
  uint64_t bytes() const;       // all of them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
