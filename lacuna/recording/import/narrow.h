// Fields that were stored wider than they are: pixels as floats, counts as floats, masks as bytes.
//
// --narrow reads a field once, value by value, to learn the narrowest form that gives every value
// back exactly, and a second time to write it in that form. A field with one value that does not
// fit stays as it is, and the report says which value.
//
//   stimulus   floats or integers that are all whole and 0 to 255 -> u8; floats that are all
//              exactly (k - 127) / 255 in their own precision -> u8 k, which normalisation gives
//              back
//   counts     whole numbers from 0 on -> u8, or u16 to 65,535
//   validity   0 and 1 -> bits, or u8 where there is one a row
//   other      whole numbers 0 to 255 -> u8
//   behaviour, time, trials and stimulus ids stay as they are
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lacuna/recording/recording.h"
#include "lacuna/store/zarr/element_type.h"

namespace lacuna {

enum class NarrowForm : uint8_t {
  as_is,
  u8,         // the value itself
  u16,        // the value itself
  pixels_u8,  // k of (k - 127) / 255
  bits,       // rows of bits, least significant first
};

// Sees every value of a field, block by block, and knows what they would fit into.
class NarrowCheck {
 public:
  // columns: values a row.
  NarrowCheck(FieldRole role, ElementType type, uint64_t columns);

  // Rows from first_row on. False: nothing narrower fits, and the rest need not be seen.
  bool add(std::span<const std::byte> rows, uint64_t first_row);
  NarrowForm form() const;         // after the last row
  const std::string& why() const;  // it stays as it is: "row 17 holds 0.5"

 private:
  template <class T>
  void add_values(std::span<const std::byte> rows, uint64_t first_row);
  void refuse(uint64_t element, double value);

  ElementType type_;
  uint64_t columns_;
  std::vector<NarrowForm> open_;  // that still fit, the narrowest first
  std::string why_;
};

DType dtype_of_form(NarrowForm form, DType otherwise);
// Rows of `type` into the form that a NarrowCheck found; out is replaced.
void narrow_rows(NarrowForm form, ElementType type, uint64_t columns,
                 std::span<const std::byte> rows, std::vector<std::byte>& out);

}  // namespace lacuna
