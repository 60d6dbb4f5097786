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

void check_table(const MaskLayout& layout, uint64_t places) {
  check_u8(layout);
  if (layout.stride() > UINT32_MAX)
    throw Error("a mask record of {} bytes is too large; 4 GB is the most", layout.stride());
  if (places > UINT32_MAX)
    throw Error("the genes of this graph take {} mask elements away, more than {}", places,
                UINT32_MAX);
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
  stride_ += (bytes + kMaskAlignment - 1) / kMaskAlignment * kMaskAlignment;
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
  LACUNA_ASSERT(layout.sections().size() == rules.sections().size());
  uint64_t total = 0;
  for (const MaskSection& section : rules.sections()) total += section.off.position.size();
  check_table(layout, total);
  place.reserve(total);
  ptr.push_back(0);
  for (uint32_t gene = 0; gene < rules.gene_count(); ++gene) {
    for (size_t s = 0; s < rules.sections().size(); ++s)
      for (const uint32_t position : rules.sections()[s].off.of(gene))
        place.push_back(uint32_t(layout.sections()[s].offset + position));
    ptr.push_back(uint32_t(place.size()));
  }
}

MaskTable::MaskTable(const GraphPlan& graph, const MaskLayout& layout) {
  const auto& sections = layout.sections();
  LACUNA_ASSERT(sections.size() == graph.type_count() + 1);
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

}  // namespace lacuna
