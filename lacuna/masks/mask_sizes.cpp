#include "lacuna/masks/mask_sizes.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/masks/mask_store.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

FormSize fixed_size(const MaskLayout& layout, MaskForm form) {
  const uint64_t record = record_bytes(layout, form);
  return {double(record), lmdb_bytes_per_value(sizeof(MaskHeader) + record)};
}

// Sets the mean over up to `most` samples, spread evenly: sizes of records of positions, and how
// many genes are removed.
void measure_positions(const Samples& samples, const MaskEncoder& positions, uint64_t most,
                       MaskSizes& sizes) {
  LACUNA_ASSERT(positions.form() == MaskForm::positions);
  sizes.looked_at = std::min(samples.size(), most);
  const RemovedReader reader(samples);
  std::vector<uint32_t> removed;
  std::vector<std::byte> record;
  for (uint64_t i = 0; i < sizes.looked_at; ++i) {
    const uint64_t sample = i * samples.size() / sizes.looked_at;
    reader.read(sample, removed);
    record.clear();
    positions.append(sample, removed, record);
    sizes.removed += double(removed.size());
    sizes.positions.record += double(record.size());
    sizes.positions.stored += lmdb_bytes_per_value(sizeof(MaskHeader) + record.size());
  }
  const double count = std::max(1.0, double(sizes.looked_at));
  sizes.removed /= count;
  sizes.positions = {sizes.positions.record / count, sizes.positions.stored / count};
}

}  // namespace

uint64_t MaskSizes::index_bytes(uint64_t batch) const {
  return uint64_t(std::llround(double(batch) * (4 * removed + 4 + 4 * double(labels)) + 4));
}

MaskSizes measure_sizes(const Samples& samples, const RemovalRules& rules,
                        const MaskEncoder& positions) {
  MaskSizes sizes;
  sizes.u8 = fixed_size(positions.layout(), MaskForm::u8);
  sizes.bits = fixed_size(positions.layout(), MaskForm::bits);
  sizes.bf16 = fixed_size(positions.layout(), MaskForm::bf16);
  sizes.table = sizeof(uint32_t) * (uint64_t(rules.gene_count()) + 1);
  for (const MaskSection& section : rules.sections())
    sizes.table += section.off.position.size() * sizeof(uint32_t);
  sizes.labels = samples.label_count();
  measure_positions(samples, positions, 256, sizes);
  return sizes;
}

uint64_t stored_bytes_per_sample(const Samples& samples, const RemovalRules& rules, MaskForm form) {
  if (form != MaskForm::positions)
    return uint64_t(std::ceil(fixed_size(MaskLayout(rules, form), form).stored));
  MaskSizes sizes;
  measure_positions(samples, MaskEncoder(rules, form), 1000, sizes);
  return uint64_t(std::ceil(sizes.positions.stored));
}

Json to_json(const MaskSizes& sizes) {
  const auto form = [](const FormSize& size) -> Json {
    return {{"record_bytes", size.record}, {"stored_bytes", size.stored}};
  };
  return {{"u8", form(sizes.u8)},       {"bits", form(sizes.bits)},
          {"bf16", form(sizes.bf16)},   {"positions", form(sizes.positions)},
          {"table_bytes", sizes.table}, {"removed_per_sample", sizes.removed},
          {"labels", sizes.labels},     {"samples_looked_at", sizes.looked_at}};
}

}  // namespace lacuna
