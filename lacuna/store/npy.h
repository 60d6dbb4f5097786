// NumPy's .npy files, version 1.0, C order, little endian: what every array of a screen, a
// recording or a store is.
//
// read_npy() maps the file: opening costs no reading, and the bytes stay mapped as long as a copy
// of the Array lives. The header is read with suspicion (a hostile or truncated file gives an Error
// that names it, never a bad access): the sizes are checked against the file's length before
// anything is touched.
#pragma once

#include <string>
#include <string_view>

#include "lacuna/core/array.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

// bf16 arrays come back as u16: only the manifest knows (see Directory::array). Booleans come back
// as u8.
Array read_npy(const fs::path& path);

// Data starts at a multiple of 64 bytes. Written and flushed to the disk; returns the XXH3 of the
// whole file.
uint64_t write_npy(const fs::path& path, const Array& array);

// The bytes before the elements: a multiple of 64, and equally many whatever the number of rows, so
// that the header of a growing file can be written last. description: NumPy's name of the element
// type, "<f4".
std::string npy_header(std::string_view description, const Shape& shape);
std::string_view npy_description(DType dtype);

// An array whose first dimension is known only when the last row is written; for arrays that do not
// fit in memory.
class NpyWriter {
 public:
  NpyWriter(const fs::path& path, DType dtype, Shape row_shape);  // row_shape {} for a 1-D array

  void append(std::span<const std::byte> rows);
  template <class T>
  void append(std::span<const T> rows) {
    check_dtype(dtype_of<T>);
    append(std::as_bytes(rows));
  }
  uint64_t close();     // completes the header, flushes to the disk; XXH3 of the whole file
  Shape shape() const;  // [rows so far, row_shape...]
  DType dtype() const { return dtype_; }

 private:
  void check_dtype(DType given) const;

  DType dtype_;
  Shape row_shape_;
  uint64_t row_bytes_;
  uint64_t header_bytes_ = 0;
  FileWriter file_;
};

}  // namespace lacuna
