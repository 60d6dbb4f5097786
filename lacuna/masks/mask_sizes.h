// How large the masks of a screen are: a record in each form, and what it takes on disk.
//
// u8, bits and bf16 records of a graph all have the same size, which is exact. Records of positions
// differ, so some samples of the screen are encoded and the mean is taken.
#pragma once

#include <cstdint>

#include "lacuna/ops/masks/masks.h"
#include "lacuna/screen/samples.h"
#include "lacuna/store/directory.h"

namespace lacuna {

// So many times what is needed must be free, in memory or on disk: other things need some too.
inline constexpr double kRoomMargin = 1.2;

struct FormSize {
  double record = 0;  // bytes
  double stored = 0;  // bytes a sample of a store: with header, whole pages, and the tree's pages
};

struct MaskSizes : PerForm<FormSize> {
  uint64_t table = 0;      // bytes: the places of a record that go with each gene
  double removed = 0;      // genes a sample removes, mean over those looked at
  uint64_t labels = 0;     // of a sample
  uint64_t looked_at = 0;  // samples

  // What a batch is without masks: removed genes and ptr as i32, labels as f32.
  uint64_t index_bytes(uint64_t batch) const;
};

// Looks at up to 256 samples of the screen, spread evenly. positions: an encoder for that form, of
// the same rules. Throws Error for samples that remove what is not a gene.
MaskSizes measure_sizes(const Samples& samples, const RemovalRules& rules,
                        const MaskEncoder& positions);

// What one sample takes on disk, rounded up: exact for u8, bits and bf16, for positions the mean
// over up to 1000 samples; 0 where there are none.
uint64_t stored_bytes_per_sample(const Samples& samples, const RemovalRules& rules, MaskForm form);

Json to_json(const MaskSizes& sizes);

}  // namespace lacuna
