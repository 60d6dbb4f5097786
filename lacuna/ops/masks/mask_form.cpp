#include "lacuna/ops/masks/mask_form.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "lacuna/core/error.h"
#include "lacuna/ops/aggregate/column_kernels.h"

namespace lacuna {
namespace {

constexpr uint16_t kOneBf16 = 0x3f80;

uint64_t padded(uint64_t bytes) {
  return (bytes + kMaskAlignment - 1) / kMaskAlignment * kMaskAlignment;
}

// ---- expanding

// Eight bits as eight bytes.
constexpr std::array<std::array<uint8_t, 8>, 256> make_bytes_of_bits() {
  std::array<std::array<uint8_t, 8>, 256> table = {};
  for (size_t bits = 0; bits < 256; ++bits)
    for (size_t i = 0; i < 8; ++i) table[bits][i] = uint8_t(bits >> i & 1);
  return table;
}
constexpr auto kBytesOfBits = make_bytes_of_bits();

void expand_bits(const std::byte* from, uint64_t count, uint8_t* out) {
  const uint64_t whole = count / 8;
  for (uint64_t i = 0; i < whole; ++i)
    std::memcpy(out + 8 * i, kBytesOfBits[size_t(from[i])].data(), 8);
  if (count % 8 != 0)
    std::memcpy(out + 8 * whole, kBytesOfBits[size_t(from[whole])].data(), count % 8);
}

void expand_bf16(const std::byte* from, uint64_t count, uint8_t* out) {
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t value;
    std::memcpy(&value, from + 2 * i, sizeof value);
    out[i] = uint8_t(value != 0);
  }
}

// A record of positions, read with suspicion.
class PositionReader {
 public:
  explicit PositionReader(std::span<const std::byte> record) : record_(record) {}

  uint64_t next() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      if (at_ == record_.size()) refuse("ends inside a number");
      const auto byte = uint64_t(record_[at_++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    refuse("holds a number of more than five bytes");
  }

  void expect_end() const {
    if (at_ != record_.size()) refuse("goes on behind its last position");
  }

  [[noreturn]] void refuse(const char* what) const {
    throw Error("a record of positions {} (byte {} of {}); it is damaged or of another graph", what,
                at_, record_.size());
  }

 private:
  std::span<const std::byte> record_;
  size_t at_ = 0;
};

void expand_positions(PositionReader& reader, uint64_t count, uint8_t* out) {
  fill_bytes(1, count, out);
  const uint64_t gone = reader.next();
  if (gone > count) reader.refuse("takes away more than there is");
  uint64_t position = 0;  // the first that the next number can mean
  for (uint64_t i = 0; i < gone; ++i) {
    position += reader.next();
    if (position >= count) reader.refuse("takes away what is not there");
    out[position++] = 0;
  }
}

// ---- making

void append_varint(uint64_t value, std::vector<std::byte>& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(std::byte(value | 0x80));
  out.push_back(std::byte(value));
}

// Elements that fit into the bytes before a section: what its first element is numbered.
uint64_t elements_in(MaskForm form, uint64_t bytes) {
  if (form == MaskForm::bits) return 8 * bytes;
  return form == MaskForm::bf16 ? bytes / 2 : bytes;
}

std::vector<std::byte> make_wild_type(const MaskLayout& layout, MaskForm form) {
  if (form == MaskForm::positions) return {};
  std::vector<std::byte> record(record_bytes(layout, form));
  std::byte* out = record.data();
  for (const MaskLayout::Section& section : layout.sections()) {
    const uint64_t bytes = mask_bytes(form, section.count);
    if (form == MaskForm::u8) std::memset(out, 1, bytes);
    if (form == MaskForm::bf16)
      for (uint64_t i = 0; i < section.count; ++i) std::memcpy(out + 2 * i, &kOneBf16, 2);
    if (form == MaskForm::bits) {
      std::memset(out, 0xff, bytes);
      if (section.count % 8 != 0) out[bytes - 1] = std::byte((1u << section.count % 8) - 1);
    }
    out += padded(bytes);
  }
  return record;
}

}  // namespace

uint64_t record_bytes(const MaskLayout& layout, MaskForm form) {
  if (form == MaskForm::positions) return 0;
  uint64_t bytes = 0;
  for (const auto& section : layout.sections()) bytes += padded(mask_bytes(form, section.count));
  return bytes;
}

void expand_masks(const MaskLayout& layout, MaskForm form, std::span<const std::byte> record,
                  uint8_t* out) {
  LACUNA_ASSERT(layout.form() == MaskForm::u8);
  const uint64_t expected = record_bytes(layout, form);
  if (form != MaskForm::positions && record.size() != expected)
    throw Error("a {} record has {} bytes, {} expected; it is damaged or of another graph",
                name(form), record.size(), expected);
  if (form == MaskForm::u8) {
    std::memcpy(out, record.data(), record.size());
    return;
  }
  PositionReader positions(record);
  const std::byte* from = record.data();
  for (const MaskLayout::Section& section : layout.sections()) {
    uint8_t* const to = out + section.offset;
    if (form == MaskForm::positions) {
      expand_positions(positions, section.count, to);
    } else {
      (form == MaskForm::bits ? expand_bits : expand_bf16)(from, section.count, to);
      from += padded(mask_bytes(form, section.count));
    }
    std::memset(to + section.bytes, 0, padded(section.bytes) - section.bytes);
  }
  if (form == MaskForm::positions) positions.expect_end();
}

MaskEncoder::MaskEncoder(const RemovalRules& rules, MaskForm form)
    : form_(form), layout_(rules, MaskForm::u8), wild_type_(make_wild_type(layout_, form)) {
  const MaskForm unit = form == MaskForm::positions ? MaskForm::u8 : form;
  std::vector<uint64_t> first;  // element of each section
  uint64_t bytes = 0, total = 0;
  for (const MaskSection& section : rules.sections()) {
    first.push_back(elements_in(unit, bytes));
    bytes += padded(mask_bytes(unit, section.count));
    total += section.off.position.size();
  }
  if (elements_in(unit, bytes) > UINT32_MAX || total > UINT32_MAX)
    throw Error(
        "the masks of this graph have {} elements, of which its genes take {} away; {} is "
        "the most",
        elements_in(unit, bytes), total, UINT32_MAX);
  place_.reserve(total);
  ptr_.push_back(0);
  for (uint32_t gene = 0; gene < rules.gene_count(); ++gene) {
    for (size_t s = 0; s < first.size(); ++s)
      for (const uint32_t position : rules.sections()[s].off.of(gene))
        place_.push_back(uint32_t(first[s] + position));
    ptr_.push_back(uint32_t(place_.size()));
  }
}

void MaskEncoder::append(uint64_t sample, std::span<const uint32_t> removed,
                         std::vector<std::byte>& out) const {
  check_removed(removed, sample, uint32_t(ptr_.size() - 1));
  if (form_ == MaskForm::positions) return append_positions(removed, out);
  const size_t start = out.size();
  out.insert(out.end(), wild_type_.begin(), wild_type_.end());
  clear(removed, out.data() + start);
}

void MaskEncoder::write(uint64_t sample, std::span<const uint32_t> removed, std::byte* out) const {
  LACUNA_ASSERT(form_ != MaskForm::positions);
  check_removed(removed, sample, uint32_t(ptr_.size() - 1));
  std::memcpy(out, wild_type_.data(), wild_type_.size());
  clear(removed, out);
}

void MaskEncoder::clear(std::span<const uint32_t> removed, std::byte* record) const {
  for (const uint32_t gene : removed)
    for (const uint32_t place : of(gene)) {
      if (form_ == MaskForm::u8)
        record[place] = std::byte(0);
      else if (form_ == MaskForm::bits)
        record[place / 8] &= ~(std::byte(1) << place % 8);
      else
        std::memset(record + 2 * uint64_t(place), 0, 2);
    }
}

void MaskEncoder::append_positions(std::span<const uint32_t> removed,
                                   std::vector<std::byte>& out) const {
  std::vector<uint32_t> places, more;  // of the u8 record, ascending
  for (const uint32_t gene : removed) {
    more.clear();
    std::ranges::set_union(places, of(gene), std::back_inserter(more));
    places.swap(more);
  }
  auto at = places.begin();
  for (const MaskLayout::Section& section : layout_.sections()) {
    const auto end = std::lower_bound(at, places.end(), section.offset + section.count);
    append_varint(uint64_t(end - at), out);
    for (uint64_t next = section.offset; at != end; next = uint64_t(*at++) + 1)
      append_varint(*at - next, out);
  }
}

}  // namespace lacuna
