// Masks of a batch: which nodes and edges each sample keeps.
//
// A record is one sample's masks, one after another: the node types, then the edge types, in the
// order of the graph; each starts at a multiple of 64 bytes, and so does the next record. An
// element is 1 where it is kept and 0 where it is gone; the bytes between two masks are 0. Records
// of a batch are sample-major, [B, stride]. This one layout serves disk, memory, batches and
// devices, in three forms: u8 (a byte an element), bits (least significant first), bf16 (two
// bytes).
//
// A fourth form, positions, has no layout of its own. For each mask in turn it says how many
// elements are gone, then their positions, ascending: the first as it is, every other one as its
// distance from the one before, less 1. All numbers are varints (LEB128: seven bits a byte, least
// significant first, the top bit says that more follow).
//
//   const MaskEncoder encoder(rules, MaskForm::bits);
//   encoder.append(sample, removed, bytes);                          // a record in that form
//   expand_masks(encoder.layout(), MaskForm::bits, bytes, record);   // the same masks as u8
//
//   MaskArena arena(layout, table, batch);                           // u8 records of a batch
//   arena.update({removed, ptr});
//
// aggregate() reads these records (the rungs from `disk` to `device`); the rung `kernel`
// needs none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/scratch.h"
#include "lacuna/graph/removal.h"
#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

enum class MaskForm : uint8_t { u8, bits, bf16, positions };
std::string_view name(MaskForm form);
MaskForm mask_form_from_name(std::string_view name);  // throws Error, listing the four
// One value a form.
template <class T>
struct PerForm {
  T u8 = {}, bits = {}, bf16 = {}, positions = {};

  const T& of(MaskForm form) const {
    const T* const all[] = {&u8, &bits, &bf16, &positions};
    return *all[size_t(form)];
  }
};

inline constexpr uint64_t kMaskAlignment = 64;
// Bytes of a mask of this many elements, without padding; not for positions.
uint64_t mask_bytes(MaskForm form, uint64_t elements);

class MaskLayout {
 public:
  struct Section {
    std::string name;  // "gene", "gene.physical.gene"
    uint64_t count;    // elements
    uint64_t offset;   // bytes from the start of the record, a multiple of 64
    uint64_t bytes;    // without padding
  };

  // Throws Error for positions.
  MaskLayout(const RemovalRules& rules, MaskForm form);
  // From the number of elements of each section, in order; the sections have no names.
  MaskLayout(std::span<const int64_t> counts, MaskForm form);

  MaskForm form() const { return form_; }
  uint64_t stride() const { return stride_; }  // bytes a record, a multiple of 64
  const std::vector<Section>& sections() const { return sections_; }
  const Section& section(std::string_view name) const;  // throws Error, listing what there is
  // Offsets of some sections, by name: what aggregate() wants for its edge types.
  std::vector<uint64_t> offsets(std::span<const std::string> names) const;

 private:
  void add(std::string name, uint64_t count);

  MaskForm form_;
  uint64_t stride_ = 0;
  std::vector<Section> sections_;
};

// The places of a u8 record that go with each gene, over all sections: one list a gene, so that a
// record is fixed in one run. About 20 MB at yeast size; plain arrays, so that a device or a tensor
// can hold them.
struct MaskTableView {
  std::span<const uint32_t> ptr;    // [genes + 1]
  std::span<const uint32_t> place;  // [ptr[genes]] bytes from the start of the record

  uint32_t gene_count() const { return uint32_t(ptr.size()) - 1; }
  std::span<const uint32_t> of(int32_t gene) const {
    return place.subspan(ptr[size_t(gene)], ptr[size_t(gene) + 1] - ptr[size_t(gene)]);
  }
};
struct MaskTable {
  std::vector<uint32_t> ptr, place;

  MaskTable() = default;
  // Throws Error for a record of 4 GB or more. layout: of the same rules, u8.
  MaskTable(const RemovalRules& rules, const MaskLayout& layout);
  // The same for a graph whose nodes are all genes: the record is the node mask, then the masks of
  // the edge types.
  MaskTable(const GraphPlan& graph, const MaskLayout& layout);
  operator MaskTableView() const { return {ptr, place}; }
  uint32_t gene_count() const { return uint32_t(ptr.size()) - 1; }
};

// ---- u8 records of a batch

// Writes every byte of a u8 record [layout.stride()] from which nothing is gone.
void write_wild_type(const MaskLayout& layout, uint8_t* record);
// Writes every byte of the u8 records [B, layout.stride()] of a batch. Throws Error as
// check_removed() does.
void write_masks(const MaskLayout& layout, const MaskTableView& table, const RemovedView& removed,
                 uint8_t* records, int threads = 0);
// Turns records [*, stride] that hold the batch `last` (behind it the wild type) into those of
// `removed`. Throws Error as check_removed() does for either, and then changes nothing.
void update_masks(uint64_t stride, const MaskTableView& table, const RemovedView& last,
                  const RemovedView& removed, uint8_t* records);

// Records that are kept from batch to batch. Nearly all of a mask is ones in every sample, so
// update() only sets back what the last batch cleared and clears what this one removes. It
// allocates nothing once `capacity` samples were announced.
class MaskArena {
 public:
  // layout and table outlive the arena.
  MaskArena(const MaskLayout& layout, const MaskTable& table, int64_t capacity);

  // Makes the records of a batch of at most `capacity` samples; they stay valid until the next
  // update(). Throws Error as check_removed() does, and then changes nothing.
  const uint8_t* update(const RemovedView& removed);

  const uint8_t* records() const { return records_.get(); }  // [capacity, stride]
  int64_t capacity() const { return capacity_; }

 private:
  const MaskLayout& layout_;
  const MaskTable& table_;
  int64_t capacity_;
  Scratch<uint8_t> records_;
  std::vector<int32_t> last_index_, last_ptr_;  // the last batch
};

// ---- records in every form

// Bytes of a record in this form; 0 for positions, whose records differ. layout: of any form.
uint64_t record_bytes(const MaskLayout& layout, MaskForm form);

// Writes every byte of the u8 record that `record` stands for. layout: of u8; record: of any
// alignment; out: [layout.stride()]. Throws Error when the record does not fit the layout (another
// size, positions that are none of the graph's, bytes left over), never reads beyond it, and then
// leaves in `out` what it had written. Bytes of a right size but wrong content are expanded as
// they are: checksums are for whoever stored them.
void expand_masks(const MaskLayout& layout, MaskForm form, std::span<const std::byte> record,
                  uint8_t* out);

// Makes records. Holds the places that go with each gene (about 20 MB at yeast size) and does not
// change: any number of threads may use one.
class MaskEncoder {
 public:
  // Throws Error for a record of 4 GB or more.
  MaskEncoder(const RemovalRules& rules, MaskForm form);

  MaskForm form() const { return form_; }
  const MaskLayout& layout() const { return layout_; }         // u8: what records expand to
  uint64_t record_bytes() const { return wild_type_.size(); }  // 0 for positions

  // Appends the record of a sample to `out`. Genes in any order, repeats allowed; throws Error
  // naming the sample when an index is not a gene, and then changes nothing.
  void append(uint64_t sample, std::span<const uint32_t> removed,
              std::vector<std::byte>& out) const;
  // The same into out [record_bytes()], every byte of it; not for positions.
  void write(uint64_t sample, std::span<const uint32_t> removed, std::byte* out) const;

 private:
  void clear(std::span<const uint32_t> removed, std::byte* record) const;
  void append_positions(std::span<const uint32_t> removed, std::vector<std::byte>& out) const;

  MaskForm form_;
  MaskLayout layout_;
  // What goes with each gene, ascending, in elements from the start of the record: bits, two-byte
  // words, or the bytes of the u8 record for u8 and positions.
  MaskTable table_;
  std::vector<std::byte> wild_type_;  // [record_bytes()]
};

}  // namespace lacuna
