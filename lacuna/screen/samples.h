// The samples of a screen: which genes each removes, its labels, anything else known about it, and
// the splits into training, validation and test.
//
// Removed genes lie one after another; sample s owns removed[ptr[s] .. ptr[s + 1]). Arrays are in
// memory or mapped from a screen on disk (screen.h); a copy of Samples shares them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/progress.h"
#include "lacuna/store/directory.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// One more thing that was measured or is known about each sample. Categories are codes with their
// names beside them.
struct Column {
  std::string name;
  // [S] f32, f64, u8, u16, u32, i32 or i64. Categories: u8, u16 or u32, and the largest code of
  // that type means "unknown"; numbers: NaN means "unknown" where the type has one.
  Array values;
  std::vector<std::string> categories;  // names of codes 0, 1, ...; empty for a number

  bool is_category() const { return !categories.empty(); }
  double number(uint64_t sample) const;                 // any column; codes as numbers
  std::optional<uint32_t> code(uint64_t sample) const;  // categories only; nothing = unknown
};
// The code that means "unknown" in a column of categories of this type.
uint32_t unknown_code(DType dtype);
// A column of categories from codes (unknown: any value not below categories.size()), in the
// smallest type that holds them.
Column make_category_column(std::string name, std::span<const uint32_t> codes,
                            std::vector<std::string> categories);

enum class Part : uint8_t { train = 0, validation = 1, test = 2, unused = 255 };
std::string_view name(Part part);
Part part_from_name(std::string_view name);  // "val" is validation too

struct Split {
  std::string name;
  Array parts;  // [S] u8, see Part
  Json how;     // how it was drawn, or where it came from
};

struct Samples {
  Array removed;                         // [ptr[S]] u16 or u32
  Array ptr;                             // [S + 1] u32 or u64
  Array labels;                          // [S] or [S, L] f32; NaN = not measured
  std::vector<std::string> label_names;  // [L]
  std::vector<Column> columns;

  uint64_t size() const { return ptr.size() - 1; }
  uint64_t label_count() const { return label_names.size(); }
};

// Reads removed and ptr whatever their type, without owning the arrays. Every call checks its
// places, because an opened screen has not checked all of ptr: a damaged one gives an Error, never
// a bad access. Gene indices are not compared with the gene count.
class RemovedReader {
 public:
  explicit RemovedReader(const Samples& samples);
  uint64_t size() const { return size_; }  // samples
  uint64_t begin(uint64_t sample) const;   // sample from 0 to size()
  uint64_t count(uint64_t sample) const;
  uint32_t at(uint64_t place) const;
  // Replaces out's contents by the removed genes of a sample, in stored order.
  void read(uint64_t sample, std::vector<uint32_t>& out) const;

 private:
  uint64_t size_, removed_size_;
  const uint16_t* removed16_ = nullptr;
  const uint32_t* removed32_ = nullptr;
  const uint32_t* ptr32_ = nullptr;
  const uint64_t* ptr64_ = nullptr;
};

// Builds the sample arrays of a screen, one sample after another.
class SampleBuilder {
 public:
  SampleBuilder(uint32_t gene_count, std::vector<std::string> label_names);
  // Throws Error when an index is not below the gene count. labels: one for each label name.
  void add(std::span<const uint32_t> removed, std::span<const float> labels);
  uint64_t size() const { return ptr_.size() - 1; }
  Samples finish();  // leaves the builder empty

 private:
  uint32_t gene_count_;
  std::vector<std::string> label_names_;
  std::vector<uint32_t> removed_;
  std::vector<uint64_t> ptr_ = {0};
  std::vector<float> labels_;
};

// A column, or a label as a column of f32, by name: "sd", or "column:sd" and "label:sd" where both
// have it. Throws Error, listing what there is.
Column find_values(const Samples& samples, std::string_view name);

// These samples, in this order; columns and labels come along. Types stay as they are.
Samples take_samples(const Samples& samples, std::span<const uint64_t> chosen);
Split take_samples(const Split& split, std::span<const uint64_t> chosen);

// The checks of a screen. Layout: dtypes, shapes and names, and that ptr starts at 0 and ends where
// removed does; reads two elements. Values: every place, index, code and part; reads everything.
// Throw Error that names what is wrong.
void check_layout(const Samples& samples);
void check_layout(const Split& split, uint64_t sample_count);
void check_values(const Samples& samples, uint32_t gene_count, Progress& progress);
void check_values(const Split& split);

// "samples A:B" (the removed genes of samples A to B, in blocks of 65,536: what masks are made of),
// "label NAME", "column NAME". The same for the same contents, whatever type they are stored in.
Fingerprint fingerprint_of(const Samples& samples);
// Only the blocks of samples `begin` to `end` - 1, of which the first and the last may be cut.
// Parts of `known` (the screen's own fingerprint) are taken from there; the rest is read.
Fingerprint fingerprint_of_removed(const Samples& samples, uint64_t begin, uint64_t end,
                                   const Fingerprint& known = {});

}  // namespace lacuna
