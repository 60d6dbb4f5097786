#include "lacuna/recording/import/raw_array.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr uint64_t kMostGap = 4096;  // bytes read in vain rather than by a request of their own
constexpr uint64_t kGatherBytes = 8 << 20;  // of the file, read at once for a strided array

}  // namespace

std::vector<uint64_t> c_strides(const Shape& shape) {
  std::vector<uint64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::vector<uint64_t> fortran_strides(const Shape& shape) {
  std::vector<uint64_t> strides(shape.size(), 1);
  for (size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  return strides;
}

ForeignArray::ForeignArray(std::string name_, std::string where_, ElementType type_, Shape shape_)
    : name(std::move(name_)), where(std::move(where_)), type(type_), shape(std::move(shape_)) {}

uint64_t ForeignArray::row_elements() const {
  uint64_t elements = 1;
  for (size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

RawArray::RawArray(const fs::path& file, std::string name, std::string where, ElementType type,
                   Shape shape, Layout layout)
    : ForeignArray(std::move(name), std::move(where), type, std::move(shape)),
      path_(file),
      layout_(std::move(layout)) {
  const uint64_t file_bytes = OpenFile(file).bytes();
  if (layout_.strides.empty()) layout_.strides = c_strides(this->shape);
  const std::vector<uint64_t> plain = c_strides(this->shape);
  is_contiguous_ = true;
  uint64_t last = 0, elements = 1;  // of the last element, in elements
  for (size_t i = 0; i < this->shape.size(); ++i) {
    uint64_t reach = 0;
    if (this->shape[i] > 1 && layout_.strides[i] != plain[i]) is_contiguous_ = false;
    if (this->shape[i] > 0 &&
        (__builtin_mul_overflow(layout_.strides[i], this->shape[i] - 1, &reach) ||
         __builtin_add_overflow(last, reach, &last)))
      throw Error("{}: its strides are beyond 64 bits", this->where);
    if (__builtin_mul_overflow(elements, std::max<uint64_t>(this->shape[i], 1), &elements))
      throw Error("{}: its shape is beyond 64 bits", this->where);
  }
  const bool is_empty = std::ranges::find(this->shape, uint64_t(0)) != this->shape.end();
  const uint64_t item = item_size(type);
  uint64_t end = layout_.offset, bytes = 0;
  if (!is_empty &&
      (__builtin_mul_overflow(last + 1, item, &bytes) || __builtin_add_overflow(end, bytes, &end)))
    throw Error("{}: its shape is beyond 64 bits", this->where);
  if (end > file_bytes)
    throw Error(
        "{}: truncated: {} bytes of {} [{}] from byte {} on reach to byte {}, but the file "
        "has {}; copy it again",
        this->where, bytes, lacuna::name(type), fmt::join(this->shape, ", "), layout_.offset, end,
        file_.bytes());
}

std::optional<FieldPlace> RawArray::place(std::string& why) const {
  if (!is_contiguous_) {
    why = "it is a strided view: its rows do not lie one after another";
  } else if (layout_.is_big_endian && item_size(type) > 1) {
    why = "its elements are big endian";
  } else if (layout_.offset % item_size(type) != 0) {
    why = fmt::format("it starts at byte {}, unaligned", layout_.offset);
  } else {
    return FieldPlace{.file = path_, .offset = layout_.offset, .in_place = true};
  }
  return {};
}

void RawArray::read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out) {
  LACUNA_ASSERT(begin <= end && end <= rows() && out.size() == (end - begin) * row_bytes());
  if (out.empty()) return;
  if (file_.path().empty()) file_ = OpenFile(path_);
  if (is_contiguous_)
    file_.read(layout_.offset + begin * row_bytes(), out);
  else
    gather(begin, end, out);
  if (layout_.is_big_endian) swap_bytes(out, item_size(type));
}

// In the order of the file, so that it is read from front to back whatever the strides are, and
// written to where each element belongs.
void RawArray::gather(uint64_t begin, uint64_t end, std::span<std::byte> out) {
  const uint64_t item = item_size(type);
  Shape extents = shape;
  extents[0] = end - begin;
  const std::vector<uint64_t> to = c_strides(extents);
  std::vector<size_t> axes(shape.size());  // the largest stride first
  std::iota(axes.begin(), axes.end(), size_t(0));
  const auto& from = layout_.strides;
  std::ranges::stable_sort(axes, [&](size_t a, size_t b) { return from[a] > from[b]; });

  const uint64_t first = layout_.offset + begin * from[0] * item;
  uint64_t last = first + item, dense = item;  // end of all elements; bytes without large gaps
  bool is_dense = true;
  for (size_t i = axes.size(); i-- > 0;) {
    const uint64_t step = from[axes[i]] * item, reach = (extents[axes[i]] - 1) * step;
    last += reach;
    is_dense = is_dense && step <= dense * 4 + kMostGap;
    if (is_dense) dense += reach;
  }
  const uint64_t window = std::min(dense, kGatherBytes);
  uint64_t have_begin = 0, have_end = 0;  // bytes of the file that piece_ holds
  const auto element = [&](uint64_t place) {
    if (place < have_begin || place + item > have_end) {
      have_begin = place;
      have_end = std::min(last, place + window);
      piece_.resize(have_end - have_begin);
      file_.read(have_begin, piece_);
    }
    return piece_.data() + (place - have_begin);
  };

  const size_t inner = axes.back();
  const uint64_t lines = out.size() / item / extents[inner];
  Shape at(shape.size(), 0);
  for (uint64_t line = 0; line < lines; ++line) {
    uint64_t source = first, target = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      source += at[axis] * from[axis] * item;
      target += at[axis] * to[axis] * item;
    }
    for (uint64_t i = 0; i < extents[inner]; ++i)
      std::memcpy(out.data() + target + i * to[inner] * item,
                  element(source + i * from[inner] * item), item);
    for (size_t i = axes.size() - 1; i-- > 0;) {  // counts up, the smallest stride fastest
      if (++at[axes[i]] < extents[axes[i]]) break;
      at[axes[i]] = 0;
    }
  }
}

}  // namespace lacuna
