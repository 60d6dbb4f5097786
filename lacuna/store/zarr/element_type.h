// The element types of arrays that others have written, more than we keep (core/dtype.h), and how
// each becomes one of ours without a loss: booleans are u8, i8 and i16 widen to i32, f16 to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lacuna/core/dtype.h"

namespace lacuna {

enum class ElementType : uint8_t {
  boolean,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
};

uint64_t item_size(ElementType type);
std::string_view name(ElementType type);  // "f16"
// By the names of Zarr v3 and of NumPy's dtype objects ("float16", "uint8", "bool"); nothing for
// others.
std::optional<ElementType> element_type_from_name(std::string_view name);
// By NumPy's short form, "<f2"; big_endian tells the byte order.
std::optional<ElementType> element_type_from_description(std::string_view text, bool& big_endian);

// What it is held as, and whether the bytes are the same there.
DType held_as(ElementType type);
bool is_same_bytes(ElementType type);
// Elements one after another, little endian, into held_as(type): out holds as many. A boolean that
// is neither 0 nor 1 becomes 1, as in NumPy.
void convert(ElementType type, std::span<const std::byte> in, std::span<std::byte> out);
// Reverses the bytes of every element, in place.
void swap_bytes(std::span<std::byte> elements, uint64_t item_bytes);

}  // namespace lacuna
