// Mask records in every form: made from the genes a sample removes, and expanded to u8.
//
//   const MaskEncoder encoder(rules, MaskForm::bits);
//   encoder.append(sample, removed, bytes);                          // a record
//   expand_masks(encoder.layout(), MaskForm::bits, bytes, record);   // the same masks as u8
//
// u8, bits and bf16 have the layout of masks.h, so all records of a graph have the same size, and
// the u8 record that any of them expands to is the one that write_masks() writes.
//
// positions: for each mask in turn how many elements are gone, then their positions, ascending: the
// first as it is, every other one as its distance from the one before less 1. All numbers are
// varints (LEB128: seven bits a byte, least significant first, the top bit says that more follow).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/ops/masks/masks.h"

namespace lacuna {

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
  std::span<const uint32_t> of(uint32_t gene) const {
    return {place_.data() + ptr_[gene], ptr_[gene + 1] - ptr_[gene]};
  }
  void clear(std::span<const uint32_t> removed, std::byte* record) const;
  void append_positions(std::span<const uint32_t> removed, std::vector<std::byte>& out) const;

  MaskForm form_;
  MaskLayout layout_;
  std::vector<uint32_t> ptr_;  // [genes + 1]
  // [ptr[genes]] what goes with each gene, ascending, in elements from the start of the record:
  // bits, two-byte words, or the bytes of the u8 record for u8 and positions.
  std::vector<uint32_t> place_;
  std::vector<std::byte> wild_type_;  // [record_bytes()]
};

}  // namespace lacuna
