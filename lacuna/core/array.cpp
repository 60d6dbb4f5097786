#include "lacuna/core/array.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

uint64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t(1), std::multiplies<>());
}

template <class T>
Array narrow_to(std::span<const uint32_t> indices, Shape shape) {
  return Array::from(std::vector<T>(indices.begin(), indices.end()), std::move(shape));
}

}  // namespace

Array::Array(DType dtype, Shape shape, const std::byte* data, std::shared_ptr<const void> owner)
    : dtype_(dtype), shape_(std::move(shape)), data_(data), owner_(std::move(owner)) {}

uint64_t Array::size() const { return product(shape_); }

void Array::check_size(uint64_t elements) const { LACUNA_ASSERT(product(shape_) == elements); }

void Array::check_dtype(DType asked) const {
  if (asked != dtype_)
    throw Error("an array of {} was read as {}; the file holds another type than expected",
                name(dtype_), name(asked));
}

std::vector<uint32_t> widen(const Array& indices) {
  const auto copy = [](auto values) { return std::vector<uint32_t>(values.begin(), values.end()); };
  switch (indices.dtype()) {
    case DType::u8:
      return copy(indices.as<uint8_t>());
    case DType::u16:
      return copy(indices.as<uint16_t>());
    default:
      return copy(indices.as<uint32_t>());
  }
}

Array narrow(std::span<const uint32_t> indices, uint64_t node_count, Shape shape) {
  switch (smallest_index_type(node_count)) {
    case DType::u8:
      return narrow_to<uint8_t>(indices, std::move(shape));
    case DType::u16:
      return narrow_to<uint16_t>(indices, std::move(shape));
    default:
      return narrow_to<uint32_t>(indices, std::move(shape));
  }
}

}  // namespace lacuna
