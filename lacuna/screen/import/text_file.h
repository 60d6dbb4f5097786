// The text of a table, whoever saved it: plain or gzip, UTF-8 or UTF-16, lines that end in \n, \r\n
// or (old Macs, and Excel's "CSV (Macintosh)") in \r alone. Read as UTF-8, in memory that does not
// grow with the file.
//
// A byte order mark says which UTF it is and is taken off; without one, zeros in every other of the
// first bytes say UTF-16. A file whose first 256 kB have \r and no \n has lines that end in \r, and
// each \r becomes \n. Throws Error that names the file: as GzipFile does, and for UTF-16 that is
// broken, with its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lacuna/core/system/file.h"
#include "lacuna/store/gzip.h"

namespace lacuna {

class TextFile {
 public:
  explicit TextFile(const fs::path& path);

  size_t read(std::span<char> text);                          // how many bytes; 0 at the end
  uint64_t bytes_read() const { return file_.bytes_read(); }  // of the file on disk
  uint64_t bytes() const { return file_.bytes(); }

 private:
  enum class Encoding { utf8, utf16_little, utf16_big };
  bool next_block();
  void find_encoding(std::string_view head);
  void add_utf16(std::string_view bytes);
  void add_character(uint32_t code);

  fs::path path_;
  GzipFile file_;
  Encoding encoding_ = Encoding::utf8;
  bool ends_in_cr_ = false, is_first_ = true;
  std::string raw_;       // the block as it lies in the file
  std::string text_;      // the block as UTF-8
  size_t at_ = 0;         // what is read of it
  std::string carry_;     // UTF-16: bytes of a character that goes on in the next block
  uint64_t decoded_ = 0;  // UTF-16: bytes before this block
};

}  // namespace lacuna
