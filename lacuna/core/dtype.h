// Element types of arrays, in memory and on disk.
//
// bf16 is the upper half of an f32, rounded to nearest even. NumPy has no name for it, so a .npy
// file holds it as <u2 and the manifest says what it is.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace lacuna {

enum class DType : uint8_t { u8, u16, u32, u64, i32, i64, bf16, f32, f64 };

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) : bits(round(value)) {}
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }

 private:
  static uint16_t round(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t(u >> 16 | 0x40u);  // a NaN stays one
    return uint16_t((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
};

uint64_t item_size(DType dtype);
std::string_view name(DType dtype);              // "u16"
DType dtype_from_name(std::string_view name);    // throws Error for an unknown one
DType smallest_index_type(uint64_t node_count);  // u8 to 256 nodes, u16 to 65,536, else u32

template <class T>
struct DTypeOf;
// clang-format off
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<uint16_t> { static constexpr DType value = DType::u16; };
template <> struct DTypeOf<uint32_t> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<uint64_t> { static constexpr DType value = DType::u64; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
// clang-format on
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace lacuna
