#include "lacuna/ops/masks/masks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/aggregate/column_kernels.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 4> kFormNames = {"u8", "bits", "bf16", "positions"};
constexpr uint16_t kOneBf16 = 0x3f80;

uint64_t padded(uint64_t bytes) {
  return (bytes + kMaskAlignment - 1) / kMaskAlignment * kMaskAlignment;
}

template <uint8_t kValue>
void set_places(uint64_t stride, const MaskTableView& table, const RemovedView& removed,
                uint8_t* records) {
  for (int64_t b = 0; b < removed.batch(); ++b) {
    uint8_t* record = records + uint64_t(b) * stride;
    for (int32_t k = removed.ptr[size_t(b)]; k < removed.ptr[size_t(b) + 1]; ++k)
      for (const uint32_t place : table.of(removed.index[size_t(k)])) record[place] = kValue;
  }
}

void check_u8(const MaskLayout& layout) {
  if (layout.form() != MaskForm::u8)
    throw Error("masks are written as u8 records, but the layout is for {}", name(layout.form()));
}

// ---- what goes with each gene

// Elements that fit into so many bytes.
uint64_t elements_in(MaskForm form, uint64_t bytes) {
  if (form == MaskForm::bits) return 8 * bytes;
  return form == MaskForm::bf16 ? bytes / 2 : bytes;
}

void check_table(const MaskLayout& layout, uint64_t places) {
  const uint64_t elements = elements_in(layout.form(), layout.stride());
  if (elements > UINT32_MAX || places > UINT32_MAX)
    throw Error(
        "the masks of this graph have {} elements, of which its genes take {} away; {} is "
        "the most",
        elements, places, UINT32_MAX);
}

// In elements from the start of a record.
MaskTable places_of(const RemovalRules& rules, const MaskLayout& layout) {
  LACUNA_ASSERT(layout.sections().size() == rules.sections().size());
  uint64_t total = 0;
  std::vector<uint64_t> first;  // element of each section
  for (const MaskSection& section : rules.sections()) total += section.off.position.size();
  for (const auto& section : layout.sections())
    first.push_back(elements_in(layout.form(), section.offset));
  check_table(layout, total);
  MaskTable table;
  table.place.reserve(total);
  table.ptr.push_back(0);
  for (uint32_t gene = 0; gene < rules.gene_count(); ++gene) {
    for (size_t s = 0; s < first.size(); ++s)
      for (const uint32_t position : rules.sections()[s].off.of(gene))
        table.place.push_back(uint32_t(first[s] + position));
    table.ptr.push_back(uint32_t(table.place.size()));
  }
  return table;
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

std::vector<std::byte> make_wild_type(const MaskLayout& layout) {
  std::vector<std::byte> record(layout.stride());
  if (layout.form() == MaskForm::u8)
    write_wild_type(layout, reinterpret_cast<uint8_t*>(record.data()));
  for (const MaskLayout::Section& section : layout.sections()) {
    std::byte* const out = record.data() + section.offset;
    if (layout.form() == MaskForm::bf16)
      for (uint64_t i = 0; i < section.count; ++i) std::memcpy(out + 2 * i, &kOneBf16, 2);
    if (layout.form() == MaskForm::bits) {
      std::memset(out, 0xff, section.bytes);
      if (section.count % 8 != 0) out[section.bytes - 1] = std::byte((1u << section.count % 8) - 1);
    }
  }
  return record;
}

std::span<const uint32_t> edges_of(const CsrView& csr, uint32_t node) {
  return {csr.edge + csr.ptr[node], csr.ptr[node + 1] - csr.ptr[node]};
}

}  // namespace

std::string_view name(MaskForm form) { return kFormNames.at(size_t(form)); }

MaskForm mask_form_from_name(std::string_view text) {
  for (size_t i = 0; i < kFormNames.size(); ++i)
    if (kFormNames[i] == text) return MaskForm(i);
  throw Error("unknown form of masks '{}'; it is u8, bits, bf16 or positions", text);
}

uint64_t mask_bytes(MaskForm form, uint64_t elements) {
  if (form == MaskForm::positions)
    throw Error("records of positions have no layout of their own; ask for that of u8");
  if (form == MaskForm::bits) return (elements + 7) / 8;
  return form == MaskForm::bf16 ? 2 * elements : elements;
}

MaskLayout::MaskLayout(const RemovalRules& rules, MaskForm form) : form_(form) {
  for (const MaskSection& section : rules.sections()) add(section.name, section.count);
}

MaskLayout::MaskLayout(std::span<const int64_t> counts, MaskForm form) : form_(form) {
  for (const int64_t count : counts) add("", uint64_t(count));
}

void MaskLayout::add(std::string name, uint64_t count) {
  const uint64_t bytes = mask_bytes(form_, count);
  sections_.push_back({std::move(name), count, stride_, bytes});
  stride_ += padded(bytes);
}

const MaskLayout::Section& MaskLayout::section(std::string_view name) const {
  std::string known;
  for (const Section& section : sections_) {
    if (section.name == name) return section;
    known += (known.empty() ? "" : ", ") + section.name;
  }
  throw Error("there is no mask '{}'; a record holds {}", name, known);
}

std::vector<uint64_t> MaskLayout::offsets(std::span<const std::string> names) const {
  std::vector<uint64_t> offsets;
  for (const std::string& name : names) offsets.push_back(section(name).offset);
  return offsets;
}

MaskTable::MaskTable(const RemovalRules& rules, const MaskLayout& layout) {
  check_u8(layout);
  *this = places_of(rules, layout);
}

MaskTable::MaskTable(const GraphPlan& graph, const MaskLayout& layout) {
  const auto& sections = layout.sections();
  LACUNA_ASSERT(sections.size() == graph.type_count() + 1);
  check_u8(layout);
  check_table(layout, graph.node_count() + 2 * graph.edge_count());
  place.reserve(graph.node_count() + 2 * graph.edge_count());  // a self loop is there once
  ptr.push_back(0);
  std::vector<uint32_t> both;
  for (uint32_t node = 0; node < graph.node_count(); ++node) {
    place.push_back(uint32_t(sections[0].offset + node));
    for (uint32_t t = 0; t < graph.type_count(); ++t) {
      both.clear();  // edges of a row ascend
      std::ranges::set_union(edges_of(graph.by_target(t), node), edges_of(graph.by_source(t), node),
                             std::back_inserter(both));
      for (const uint32_t edge : both) place.push_back(uint32_t(sections[t + 1].offset + edge));
    }
    ptr.push_back(uint32_t(place.size()));
  }
}

void write_wild_type(const MaskLayout& layout, uint8_t* record) {
  check_u8(layout);
  uint64_t end = 0;  // of the last section
  for (const MaskLayout::Section& section : layout.sections()) {
    std::memset(record + end, 0, section.offset - end);
    fill_bytes(1, section.bytes, record + section.offset);
    end = section.offset + section.bytes;
  }
  std::memset(record + end, 0, layout.stride() - end);
}

void write_masks(const MaskLayout& layout, const MaskTableView& table, const RemovedView& removed,
                 uint8_t* records, int threads) {
  check_u8(layout);
  check_removed(removed, table.gene_count());
  if (records == nullptr && removed.batch() > 0) throw Error("records is missing");
  ask_for_huge_pages(records, uint64_t(removed.batch()) * layout.stride());
  parallel_for(uint64_t(removed.batch()), threads, [&](uint64_t b) {
    uint8_t* record = records + b * layout.stride();
    write_wild_type(layout, record);
    for (int32_t k = removed.ptr[b]; k < removed.ptr[b + 1]; ++k)
      for (const uint32_t place : table.of(removed.index[size_t(k)])) record[place] = 0;
  });
}

void update_masks(uint64_t stride, const MaskTableView& table, const RemovedView& last,
                  const RemovedView& removed, uint8_t* records) {
  check_removed(last, table.gene_count());
  check_removed(removed, table.gene_count());
  set_places<1>(stride, table, last, records);
  set_places<0>(stride, table, removed, records);
}

MaskArena::MaskArena(const MaskLayout& layout, const MaskTable& table, int64_t capacity)
    : layout_(layout),
      table_(table),
      capacity_(capacity),
      records_(uint64_t(capacity) * layout.stride()),
      last_ptr_{0} {
  check_u8(layout);
  for (int64_t b = 0; b < capacity; ++b)
    write_wild_type(layout, records_.get() + uint64_t(b) * layout.stride());
}

const uint8_t* MaskArena::update(const RemovedView& removed) {
  if (removed.batch() > capacity_)
    throw Error("a batch of {} samples does not fit a mask arena of {}", removed.batch(),
                capacity_);
  update_masks(layout_.stride(), table_, {last_index_, last_ptr_}, removed, records_.get());
  last_index_.assign(removed.index.begin(), removed.index.begin() + removed.ptr.back());
  last_ptr_.assign(removed.ptr.begin(), removed.ptr.end());
  return records();
}

// ---- records in every form

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
    : form_(form), layout_(rules, MaskForm::u8) {
  const bool is_list = form == MaskForm::positions;
  const MaskLayout layout(rules, is_list ? MaskForm::u8 : form);
  table_ = places_of(rules, layout);
  if (!is_list) wild_type_ = make_wild_type(layout);
}

void MaskEncoder::append(uint64_t sample, std::span<const uint32_t> removed,
                         std::vector<std::byte>& out) const {
  check_removed(removed, sample, table_.gene_count());
  if (form_ == MaskForm::positions) return append_positions(removed, out);
  const size_t start = out.size();
  out.insert(out.end(), wild_type_.begin(), wild_type_.end());
  clear(removed, out.data() + start);
}

void MaskEncoder::write(uint64_t sample, std::span<const uint32_t> removed, std::byte* out) const {
  LACUNA_ASSERT(form_ != MaskForm::positions);
  check_removed(removed, sample, table_.gene_count());
  std::memcpy(out, wild_type_.data(), wild_type_.size());
  clear(removed, out);
}

void MaskEncoder::clear(std::span<const uint32_t> removed, std::byte* record) const {
  const MaskTableView table = table_;
  for (const uint32_t gene : removed)
    for (const uint32_t place : table.of(int32_t(gene))) {
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
    std::ranges::set_union(places, MaskTableView(table_).of(int32_t(gene)),
                           std::back_inserter(more));
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
