#include "lacuna/store/zarr/element_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

struct ElementInfo {
  std::string_view name, long_name, description;  // "f16", "float16", "f2"
  uint64_t size;
  DType held_as;
};
constexpr std::array<ElementInfo, 13> kElements = {{
    {"bool", "bool", "b1", 1, DType::u8},
    {"i8", "int8", "i1", 1, DType::i32},
    {"i16", "int16", "i2", 2, DType::i32},
    {"i32", "int32", "i4", 4, DType::i32},
    {"i64", "int64", "i8", 8, DType::i64},
    {"u8", "uint8", "u1", 1, DType::u8},
    {"u16", "uint16", "u2", 2, DType::u16},
    {"u32", "uint32", "u4", 4, DType::u32},
    {"u64", "uint64", "u8", 8, DType::u64},
    {"f16", "float16", "f2", 2, DType::f32},
    {"bf16", "bfloat16", "bfloat16", 2, DType::bf16},
    {"f32", "float32", "f4", 4, DType::f32},
    {"f64", "float64", "f8", 8, DType::f64},
}};
const ElementInfo& info_of(ElementType type) { return kElements.at(size_t(type)); }

float float_of_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero and the numbers below the smallest normal one
    const float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t shifted = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | shifted << 23 | fraction << 13);
}

template <class From, class To, class F>
void convert_each(std::span<const std::byte> in, std::span<std::byte> out, F&& f) {
  const uint64_t count = in.size() / sizeof(From);
  LACUNA_ASSERT(out.size() == count * sizeof(To));
  for (uint64_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, in.data() + i * sizeof from, sizeof from);
    const To to = f(from);
    std::memcpy(out.data() + i * sizeof to, &to, sizeof to);
  }
}

}  // namespace

uint64_t item_size(ElementType type) { return info_of(type).size; }
std::string_view name(ElementType type) { return info_of(type).name; }
DType held_as(ElementType type) { return info_of(type).held_as; }

bool is_same_bytes(ElementType type) {
  return item_size(type) == item_size(held_as(type)) && type != ElementType::boolean;
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (size_t i = 0; i < kElements.size(); ++i)
    if (kElements[i].long_name == name) return ElementType(i);
  return {};
}

std::optional<ElementType> element_type_from_description(std::string_view text, bool& big_endian) {
  big_endian = text.starts_with('>');
  if (text.empty() || std::string_view("<>|=").find(text[0]) == std::string_view::npos) return {};
  for (size_t i = 0; i < kElements.size(); ++i)
    if (kElements[i].description == text.substr(1)) return ElementType(i);
  return {};
}

void convert(ElementType type, std::span<const std::byte> in, std::span<std::byte> out) {
  if (is_same_bytes(type)) {
    LACUNA_ASSERT(in.size() == out.size());
    if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
  } else if (type == ElementType::boolean) {
    convert_each<uint8_t, uint8_t>(in, out, [](uint8_t value) { return uint8_t(value != 0); });
  } else if (type == ElementType::i8) {
    convert_each<int8_t, int32_t>(in, out, [](int8_t value) { return int32_t(value); });
  } else if (type == ElementType::i16) {
    convert_each<int16_t, int32_t>(in, out, [](int16_t value) { return int32_t(value); });
  } else {
    LACUNA_ASSERT(type == ElementType::f16);
    convert_each<uint16_t, float>(in, out, float_of_half);
  }
}

void swap_bytes(std::span<std::byte> elements, uint64_t item_bytes) {
  for (uint64_t at = 0; item_bytes > 1 && at + item_bytes <= elements.size(); at += item_bytes)
    std::reverse(elements.data() + at, elements.data() + at + item_bytes);
}

}  // namespace lacuna
