#include "lacuna/recording/field_values.h"

#include <cmath>
#include <optional>
#include <type_traits>

#include "lacuna/recording/checked_rows.h"

namespace lacuna {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class To, class T>
To convert(T value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return To(float(value));
  else
    return To(value);
}

template <class T>
bool is_set(T value) {
  const auto number = convert<double>(value);
  return number != 0 && !std::isnan(number);
}

bool bit_of(const std::byte* row, uint64_t column) {
  return (uint8_t(row[column / 8]) >> (column % 8) & 1) != 0;
}

// Calls use(t, value) for all rows of a field of one number a row.
template <class Use>
void for_numbers(const Field& field, Use&& use) {
  LACUNA_ASSERT(field.columns() == 1);
  const Array rows = read_checked(field);
  const std::byte* const bytes = rows.bytes().data();
  if (field.packed) {
    for (uint64_t t = 0; t < field.rows(); ++t) use(t, uint8_t(bit_of(bytes + t, 0)));
    return;
  }
  with_type(field.dtype, [&](auto type) {
    using T = decltype(type);
    for (uint64_t t = 0; t < field.rows(); ++t) use(t, load<T>(bytes + t * sizeof(T)));
  });
}

// A number as a whole one; NaN becomes -1, a fraction nothing.
template <class T>
std::optional<int64_t> whole_number(T value) {
  if constexpr (std::is_integral_v<T>) {
    return int64_t(value);
  } else {
    const auto number = convert<double>(value);
    if (std::isnan(number)) return -1;
    if (!(std::abs(number) < 0x1p53) || double(int64_t(number)) != number) return std::nullopt;
    return int64_t(number);
  }
}

}  // namespace

void read_columns(const Field& field, const std::byte* row, std::span<const uint32_t> columns,
                  float* out) {
  if (columns.size() == field.columns()) return read_row(field, row, out);  // all, in order
  if (field.packed) {
    for (size_t i = 0; i < columns.size(); ++i) out[i] = float(bit_of(row, columns[i]));
    return;
  }
  with_type(field.dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < columns.size(); ++i)
      out[i] = convert<float>(load<T>(row + columns[i] * sizeof(T)));
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
    for (uint64_t c = 0; c < columns; ++c) out[c] = convert<float>(load<T>(row + c * sizeof(T)));
  });
}

void and_flags(const Field& field, const std::byte* row, std::span<const uint32_t> columns,
               uint8_t* out) {
  const bool is_one = field.shape.size() == 1;
  if (field.packed) {
    for (size_t i = 0; i < columns.size(); ++i)
      out[i] &= uint8_t(bit_of(row, is_one ? 0 : columns[i]));
    return;
  }
  with_type(field.dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < columns.size(); ++i)
      out[i] &= uint8_t(is_set(load<T>(row + (is_one ? 0 : columns[i]) * sizeof(T))));
  });
}

std::vector<double> read_numbers(const Field& field) {
  std::vector<double> numbers(field.rows());
  for_numbers(field, [&](uint64_t t, auto value) { numbers[t] = convert<double>(value); });
  return numbers;
}

std::vector<uint8_t> read_flags(const Field& field) {
  std::vector<uint8_t> flags(field.rows());
  for_numbers(field, [&](uint64_t t, auto value) { flags[t] = uint8_t(is_set(value)); });
  return flags;
}

std::vector<int64_t> read_whole_numbers(const Field& field) {
  std::vector<int64_t> whole(field.rows());
  for_numbers(field, [&](uint64_t t, auto value) {
    const std::optional<int64_t> number = whole_number(value);
    if (!number)
      throw Error("{}: row {} of field '{}' is {}, but a {} is a whole number",
                  field.place.file.string(), t, field.name, convert<double>(value),
                  name(field.role));
    whole[t] = *number;
  });
  return whole;
}

}  // namespace lacuna
