// Batches of a screen's samples, in their smallest form: which genes each removes, and what was
// measured.
//
//   const ScreenSource source(screen.samples(), gene_count,
//                             {.selection = samples_in(screen.split("random"), Part::train)});
//   Loader loader(source, {.order = {.global_batch = 28, .seed = 1}});
//
// The sample arrays are read where they lie (mapped, for an open screen), so a source of 20 million
// samples holds none of them: pages come and go with the system's file cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lacuna/core/dtype.h"
#include "lacuna/screen/samples.h"

namespace lacuna {

// The values of one chosen column, in its own type.
class ColumnValues {
 public:
  DType dtype() const { return dtype_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  template <class T>
  std::span<const T> as() const {  // [B]; throws Error when T is not the dtype
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  friend class ScreenSource;
  void check_dtype(DType asked) const;

  DType dtype_ = DType::u8;
  std::vector<std::byte> bytes_;
};

// B samples. A new one holds none; there is always a ptr.
class ScreenBatch {
 public:
  ScreenBatch() = default;
  // Not movable: that would leave a batch without ptr.
  ScreenBatch(const ScreenBatch&) = default;
  ScreenBatch& operator=(const ScreenBatch&) = default;

  uint64_t size() const { return ptr_.size() - 1; }  // B
  // [B] their numbers in the screen
  std::span<const uint64_t> samples() const { return samples_; }
  // [ptr[B]] gene indices; sample b removes those at ptr[b] to ptr[b + 1] - 1
  std::span<const int32_t> removed() const { return removed_; }
  std::span<const int32_t> ptr() const { return ptr_; }  // [B + 1]
  // [B, L] NaN = not measured
  std::span<const float> labels() const { return labels_; }
  uint64_t label_count() const { return label_count_; }  // L
  // In the order they were chosen.
  std::span<const ColumnValues> columns() const { return columns_; }
  // Of removed, ptr, labels and columns: what would be moved to a device.
  uint64_t bytes() const;

 private:
  friend class ScreenSource;

  std::vector<uint64_t> samples_;
  std::vector<int32_t> removed_;
  std::vector<int32_t> ptr_ = {0};
  std::vector<float> labels_;
  uint64_t label_count_ = 0;
  std::vector<ColumnValues> columns_;
};

// The numbers of the samples in a part of a split, ascending.
std::vector<uint32_t> samples_in(const Split& split, Part part);

struct ScreenSourceOptions {
  // Numbers of the samples to load, any order, repeats allowed; not set: all.
  std::optional<std::vector<uint32_t>> selection = {};
  std::vector<std::string> columns =
      {};  // names of columns to load beside removed genes and labels
};

// A Source for Loader. A copy shares the sample arrays, but not the selection.
class ScreenSource {
 public:
  using Batch = ScreenBatch;

  // Throws Error for a column that is not there, a number that is not a sample, arrays that do not
  // fit each other.
  ScreenSource(const Samples& samples, uint32_t gene_count, ScreenSourceOptions options = {});

  uint64_t size() const { return selection_ ? selection_->size() : samples_.size(); }
  // The lowest and the highest number of the samples to load; there must be one.
  std::pair<uint64_t, uint64_t> sample_range() const;
  // `places` count within the selection. Throws Error naming the sample when a gene index or a ptr
  // is out of range (the arrays of an open screen have not been read before, so this is where a
  // damaged one shows); `out` is then of no use.
  void fill(std::span<const uint64_t> places, ScreenBatch& out) const;

 private:
  void check() const;
  template <class Ptr, class Index>
  void fill_removed(ScreenBatch& out) const;
  void fill_labels(ScreenBatch& out) const;
  void fill_columns(ScreenBatch& out) const;

  Samples samples_;  // its columns: those chosen, in that order
  uint32_t gene_count_;
  std::optional<std::vector<uint32_t>> selection_;
};

}  // namespace lacuna
