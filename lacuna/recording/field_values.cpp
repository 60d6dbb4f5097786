#include "lacuna/recording/field_values.h"

#include <cmath>

#include "lacuna/recording/checked_rows.h"

namespace lacuna {
namespace {

template <class T>
double as_double(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  if constexpr (std::is_same_v<T, BFloat16>)
    return double(float(value));
  else
    return double(value);
}

bool bit_of(const std::byte* row, uint64_t column) {
  return (uint8_t(row[column / 8]) >> (column % 8) & 1) != 0;
}

}  // namespace

void read_columns(const Field& field, const std::byte* row, std::span<const uint32_t> columns,
                  float* out) {
  if (field.packed) {
    for (size_t i = 0; i < columns.size(); ++i) out[i] = float(bit_of(row, columns[i]));
    return;
  }
  with_type(field.dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < columns.size(); ++i)
      out[i] = float(as_double<T>(row + columns[i] * sizeof(T)));
  });
}

void read_row(const Field& field, const std::byte* row, float* out) {
  const uint64_t columns = field.columns();
  if (field.packed) {
    for (uint64_t c = 0; c < columns; ++c) out[c] = float(bit_of(row, c));
    return;
  }
  if (field.dtype == DType::f32) {
    std::memcpy(out, row, columns * sizeof(float));
    return;
  }
  with_type(field.dtype, [&](auto type) {
    using T = decltype(type);
    for (uint64_t c = 0; c < columns; ++c) out[c] = float(as_double<T>(row + c * sizeof(T)));
  });
}

std::vector<double> read_numbers(const Field& field) {
  LACUNA_ASSERT(field.columns() == 1);
  const Array rows = read_checked(field);
  std::vector<double> numbers(field.rows());
  const std::byte* const bytes = rows.bytes().data();
  if (field.packed) {
    for (uint64_t t = 0; t < numbers.size(); ++t) numbers[t] = double(bit_of(bytes + t, 0));
    return numbers;
  }
  with_type(field.dtype, [&](auto type) {
    using T = decltype(type);
    for (uint64_t t = 0; t < numbers.size(); ++t) numbers[t] = as_double<T>(bytes + t * sizeof(T));
  });
  return numbers;
}

std::vector<int64_t> read_whole_numbers(const Field& field) {
  const std::vector<double> numbers = read_numbers(field);
  std::vector<int64_t> whole(numbers.size());
  for (uint64_t t = 0; t < numbers.size(); ++t) {
    if (std::isnan(numbers[t])) {
      whole[t] = -1;
      continue;
    }
    if (numbers[t] != std::floor(numbers[t]) || std::abs(numbers[t]) > 0x1p53)
      throw Error("{}: row {} of field '{}' is {}, but a {} is a whole number",
                  field.place.file.string(), t, field.name, numbers[t], name(field.role));
    whole[t] = int64_t(numbers[t]);
  }
  return whole;
}

}  // namespace lacuna
