// The values of a field as numbers, whatever dtype they are stored in, bits included.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/recording/recording.h"

namespace lacuna {

// Calls f with a value of the dtype's type: f(uint8_t()), f(float()), ...
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::u8:
      return f(uint8_t());
    case DType::u16:
      return f(uint16_t());
    case DType::u32:
      return f(uint32_t());
    case DType::u64:
      return f(uint64_t());
    case DType::i32:
      return f(int32_t());
    case DType::i64:
      return f(int64_t());
    case DType::bf16:
      return f(BFloat16());
    case DType::f32:
      return f(float());
    case DType::f64:
      return f(double());
  }
  LACUNA_ASSERT(false);
  return f(uint8_t());
}

// Columns of one row, as floats: columns[i] goes to out[i]. `row` points at the row as stored.
void read_columns(const Field& field, const std::byte* row, std::span<const uint32_t> columns,
                  float* out);
// All columns of one row; out has room for field.columns().
void read_row(const Field& field, const std::byte* row, float* out);
// out[i] &= 1 where columns[i] is neither 0 nor NaN, else 0. A field of one number a row goes for
// all columns.
void and_flags(const Field& field, const std::byte* row, std::span<const uint32_t> columns,
               uint8_t* out);

// Of a field of one number a row, all of it, compared with its checksums (checked_rows.h). Whole
// numbers: NaN becomes -1; throws Error for a fraction. Flags: 1 where neither 0 nor NaN.
std::vector<double> read_numbers(const Field& field);
std::vector<uint8_t> read_flags(const Field& field);
std::vector<int64_t> read_whole_numbers(const Field& field);

}  // namespace lacuna
