#include "lacuna/recording/import/narrow.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// f16 and bf16 as the f32 that they are.
struct HalfValue {
  uint16_t bits;
};
struct BrainValue {
  uint16_t bits;
};

double value_of(HalfValue half) {
  const std::array<HalfValue, 1> one = {half};
  float value = 0;
  convert(ElementType::f16, std::as_bytes(std::span(one)),
          std::as_writable_bytes(std::span(&value, 1)));
  return value;
}
double value_of(BrainValue value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }
template <class T>
double value_of(T value) {
  return double(value);
}

// The nearest f16 to a value of at most 1, as a double.
double rounded_to_bits(double value, int fraction_bits) {
  if (value == 0) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(e-1), 2^e)
  const double unit = std::ldexp(1.0, exponent - 1 - fraction_bits);
  return std::nearbyint(value / unit) * unit;
}

// (k - 127) / 255 as each type has it: by true division in that type.
template <class T>
double normalised_pixel(int k) {
  if constexpr (std::is_same_v<T, float>) return float(k - 127) / 255.0f;
  if constexpr (std::is_same_v<T, double>) return double(k - 127) / 255.0;
  if constexpr (std::is_same_v<T, HalfValue>) return rounded_to_bits((k - 127) / 255.0, 10);
  if constexpr (std::is_same_v<T, BrainValue>) return rounded_to_bits((k - 127) / 255.0, 7);
  return 0;
}

// k, or -1 where the value is none of them.
template <class T>
int pixel_of(double value) {
  static const std::array<double, 256> table = [] {
    std::array<double, 256> all;
    for (int k = 0; k < 256; ++k) all[size_t(k)] = normalised_pixel<T>(k);
    return all;
  }();
  if (!(value >= -1 && value <= 1)) return -1;
  const int near = int(std::lround(value * 255)) + 127;
  for (int k = std::max(near - 1, 0); k <= std::min(near + 1, 255); ++k)
    if (table[size_t(k)] == value) return k;
  return -1;
}

// -0.0 is not 0: as a byte its sign would be lost.
bool is_whole(double value, double most) {
  return value >= 0 && value <= most && value == std::floor(value) && !std::signbit(value);
}

template <class T>
bool fits(NarrowForm form, double value) {
  switch (form) {
    case NarrowForm::u8:
      return is_whole(value, 255);
    case NarrowForm::u16:
      return is_whole(value, 65535);
    case NarrowForm::bits:
      return is_whole(value, 1);
    case NarrowForm::pixels_u8:
      return pixel_of<T>(value) >= 0 && !(value == 0 && std::signbit(value));
    case NarrowForm::as_is:
      break;
  }
  return true;
}

std::vector<NarrowForm> forms_for(FieldRole role, ElementType type, uint64_t columns) {
  using enum NarrowForm;
  const bool is_float = type >= ElementType::f16;
  const uint64_t size = item_size(type);
  switch (role) {
    case FieldRole::stimulus:
      if (is_float) return {u8, pixels_u8};
      return size > 1 || type == ElementType::i8 ? std::vector{u8} : std::vector<NarrowForm>{};
    case FieldRole::counts:
      if (type == ElementType::u8 || type == ElementType::boolean) return {};
      return size > 2 || is_float || type == ElementType::i16 ? std::vector{u8, u16}
                                                              : std::vector{u8};
    case FieldRole::validity:
      if (columns > 1) return {bits};
      return type == ElementType::u8 || type == ElementType::boolean ? std::vector<NarrowForm>{}
                                                                     : std::vector{u8};
    case FieldRole::other:
      return type == ElementType::u8 || type == ElementType::boolean ? std::vector<NarrowForm>{}
                                                                     : std::vector{u8};
    default:
      return {};
  }
}

template <class F>
void with_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::boolean:
    case ElementType::u8:
      return f(uint8_t());
    case ElementType::i8:
      return f(int8_t());
    case ElementType::i16:
      return f(int16_t());
    case ElementType::i32:
      return f(int32_t());
    case ElementType::i64:
      return f(int64_t());
    case ElementType::u16:
      return f(uint16_t());
    case ElementType::u32:
      return f(uint32_t());
    case ElementType::u64:
      return f(uint64_t());
    case ElementType::f16:
      return f(HalfValue());
    case ElementType::bf16:
      return f(BrainValue());
    case ElementType::f32:
      return f(float());
    case ElementType::f64:
      return f(double());
  }
}

template <class T>
double element_at(std::span<const std::byte> rows, uint64_t i) {
  T value;
  std::memcpy(&value, rows.data() + i * sizeof value, sizeof value);
  return value_of(value);
}

}  // namespace

NarrowCheck::NarrowCheck(FieldRole role, ElementType type, uint64_t columns)
    : type_(type),
      columns_(std::max<uint64_t>(columns, 1)),
      open_(forms_for(role, type, columns)) {}

void NarrowCheck::refuse(uint64_t element, double value) {
  why_ = columns_ == 1 ? fmt::format("row {} holds {}", element, value)
                       : fmt::format("row {} holds {} in column {}", element / columns_, value,
                                     element % columns_);
}

template <class T>
void NarrowCheck::add_values(std::span<const std::byte> rows, uint64_t first_row) {
  const uint64_t count = rows.size() / sizeof(T);
  for (uint64_t i = 0; i < count; ++i) {
    const double value = element_at<T>(rows, i);
    std::erase_if(open_, [&](NarrowForm form) { return !fits<T>(form, value); });
    if (!open_.empty()) continue;
    return refuse(first_row * columns_ + i, value);
  }
}

bool NarrowCheck::add(std::span<const std::byte> rows, uint64_t first_row) {
  if (!open_.empty()) with_type(type_, [&]<class T>(T) { add_values<T>(rows, first_row); });
  return !open_.empty();
}

NarrowForm NarrowCheck::form() const { return open_.empty() ? NarrowForm::as_is : open_.front(); }
const std::string& NarrowCheck::why() const { return why_; }

DType dtype_of_form(NarrowForm form, DType otherwise) {
  if (form == NarrowForm::as_is) return otherwise;
  return form == NarrowForm::u16 ? DType::u16 : DType::u8;
}

void narrow_rows(NarrowForm form, ElementType type, uint64_t columns,
                 std::span<const std::byte> rows, std::vector<std::byte>& out) {
  LACUNA_ASSERT(form != NarrowForm::as_is);
  const uint64_t count = rows.size() / item_size(type);
  const uint64_t bytes_a_row = (columns + 7) / 8;
  const uint64_t bytes = form == NarrowForm::bits  ? count / columns * bytes_a_row
                         : form == NarrowForm::u16 ? count * 2
                                                   : count;
  out.assign(bytes, std::byte(0));
  with_type(type, [&]<class T>(T) {
    for (uint64_t i = 0; i < count; ++i) {
      const double value = element_at<T>(rows, i);
      if (form == NarrowForm::u8) {
        out[i] = std::byte(uint8_t(value));
      } else if (form == NarrowForm::pixels_u8) {
        out[i] = std::byte(uint8_t(pixel_of<T>(value)));
      } else if (form == NarrowForm::u16) {
        const auto wide = uint16_t(value);
        std::memcpy(&out[i * 2], &wide, 2);
      } else if (value != 0) {
        const uint64_t column = i % columns;
        out[i / columns * bytes_a_row + column / 8] |= std::byte(1 << column % 8);
      }
    }
  });
}

}  // namespace lacuna
