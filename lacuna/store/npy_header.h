// The header of a .npy file of anybody's: also element types, byte orders and Fortran order that
// read_npy() refuses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

struct NpyHeader {
  std::string description;  // NumPy's name of the element type, "<f2"
  bool is_fortran_order = false;
  Shape shape;
  uint64_t data = 0;  // where the elements begin
};

// `text` is the file, or its beginning as far as the header goes. Throws Error that says what is
// wrong, without the file's name.
NpyHeader parse_npy_header(std::string_view text);
NpyHeader read_npy_header(const fs::path& path);  // with the file's name

}  // namespace lacuna
