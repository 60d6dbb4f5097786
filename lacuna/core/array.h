// An array of any shape and dtype that does not change once made.
//
// It shares the ownership of its bytes (a vector, a mapped file), so copies are cheap and a view
// never outlives what it looks at. as<T>() gives the typed elements and throws when T is not the
// dtype; an index array of u8, u16 or u32 is read through widen().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lacuna/core/dtype.h"

namespace lacuna {

using Shape = std::vector<uint64_t>;

class Array {
 public:
  Array() = default;
  Array(DType dtype, Shape shape, const std::byte* data, std::shared_ptr<const void> owner);

  template <class T>
  static Array from(std::vector<T> values) {
    Shape shape = {values.size()};
    return from(std::move(values), std::move(shape));
  }
  template <class T>
  static Array from(std::vector<T> values, Shape shape) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    auto* data = reinterpret_cast<const std::byte*>(owner->data());
    Array array(dtype_of<T>, std::move(shape), data, owner);
    array.check_size(owner->size());
    return array;
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  uint64_t size() const;  // number of elements
  std::span<const std::byte> bytes() const { return {data_, size() * item_size(dtype_)}; }

  template <class T>
  std::span<const T> as() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(data_), size()};
  }

 private:
  void check_size(uint64_t elements) const;
  void check_dtype(DType asked) const;

  DType dtype_ = DType::u8;
  Shape shape_ = {0};
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// The elements of an unsigned index array (u8, u16, u32) as u32; a copy.
std::vector<uint32_t> widen(const Array& indices);
// The reverse, in the smallest type that holds indices below node_count; shape as given.
Array narrow(std::span<const uint32_t> indices, uint64_t node_count, Shape shape);

}  // namespace lacuna
