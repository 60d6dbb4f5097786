#include "lacuna/screen/screen_batch.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

std::vector<Column> choose(const std::vector<Column>& columns,
                           const std::vector<std::string>& names) {
  std::vector<Column> chosen;
  for (const std::string& name : names) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const Column& column) { return column.name == name; });
    if (found == columns.end()) {
      std::string known;
      for (const Column& column : columns) known += (known.empty() ? "" : ", ") + column.name;
      throw Error("no column '{}'; there are: {}", name, known.empty() ? "none" : known);
    }
    chosen.push_back(*found);
  }
  return chosen;
}

[[noreturn]] void throw_bad_ptr(uint64_t sample, uint64_t begin, uint64_t end, uint64_t size) {
  throw Error(
      "sample {}: its removed genes stand at {} to {} of {}, which cannot be; the screen is "
      "damaged (see `lacuna info --check`)",
      sample, begin, end, size);
}

[[noreturn]] void throw_bad_index(const ScreenBatch& batch, uint32_t gene_count) {
  for (uint64_t b = 0; b < batch.size(); ++b) {
    for (int32_t i = batch.ptr()[b]; i < batch.ptr()[b + 1]; ++i) {
      const uint32_t index = uint32_t(batch.removed()[i]);
      if (index >= gene_count) {
        throw Error(
            "sample {} removes gene index {}, but the screen has {} genes; was it made for another "
            "gene list?",
            batch.samples()[b], index, gene_count);
      }
    }
  }
  LACUNA_ASSERT(!"an index was out of range");
}

// out[b] = in[samples[b]], rows of `width` elements.
template <class T>
void gather(const T* in, std::span<const uint64_t> samples, uint64_t width, T* out) {
  if (width == 1) {
    for (const uint64_t sample : samples) *out++ = in[sample];
    return;
  }
  for (const uint64_t sample : samples) out = std::copy_n(in + sample * width, width, out);
}

}  // namespace

void ColumnValues::check_dtype(DType asked) const {
  if (asked != dtype_) {
    throw Error("the column is of type {}, not {}", name(dtype_), name(asked));
  }
}

uint64_t ScreenBatch::bytes() const {
  uint64_t bytes = removed().size_bytes() + ptr().size_bytes() + labels().size_bytes();
  for (const ColumnValues& column : columns_) bytes += column.bytes().size();
  return bytes;
}

std::vector<uint32_t> samples_in(const Split& split, Part part) {
  const std::span<const uint8_t> parts = split.parts.as<uint8_t>();
  if (parts.size() > std::numeric_limits<uint32_t>::max()) {
    throw Error("split '{}' is of {} samples; 4,294,967,295 is the most", split.name, parts.size());
  }
  std::vector<uint32_t> samples;
  samples.reserve(std::count(parts.begin(), parts.end(), uint8_t(part)));
  for (uint64_t sample = 0; sample < parts.size(); ++sample) {
    if (parts[sample] == uint8_t(part)) samples.push_back(uint32_t(sample));
  }
  return samples;
}

ScreenSource::ScreenSource(const Samples& samples, uint32_t gene_count, ScreenSourceOptions options)
    : samples_(samples), gene_count_(gene_count), selection_(std::move(options.selection)) {
  samples_.columns = choose(samples.columns, options.columns);
  check();
}

void ScreenSource::check() const {
  const DType removed = samples_.removed.dtype(), ptr = samples_.ptr.dtype();
  if (removed != DType::u16 && removed != DType::u32) {
    throw Error("removed genes are of type {}; they should be u16 or u32", name(removed));
  }
  if (ptr != DType::u32 && ptr != DType::u64) {
    throw Error("ptr is of type {}; it should be u32 or u64", name(ptr));
  }
  if (samples_.ptr.size() == 0) throw Error("ptr is empty; even no samples have one of length 1");
  const uint64_t count = samples_.size();
  if (samples_.labels.dtype() != DType::f32 ||
      samples_.labels.size() != count * samples_.label_count()) {
    throw Error("labels should be {} x {} of type f32", count, samples_.label_count());
  }
  for (const Column& column : samples_.columns) {
    if (column.values.size() == count) continue;
    throw Error("column '{}' has {} values for {} samples", column.name, column.values.size(),
                count);
  }
  if (selection_ && !selection_->empty()) {
    const uint32_t last = *std::max_element(selection_->begin(), selection_->end());
    if (last >= count) {
      throw Error("sample {} was chosen, but the screen has {}", last, count);
    }
  }
}

std::pair<uint64_t, uint64_t> ScreenSource::sample_range() const {
  LACUNA_ASSERT(size() > 0);
  if (!selection_) return {0, samples_.size() - 1};
  const auto [first, last] = std::minmax_element(selection_->begin(), selection_->end());
  return {*first, *last};
}

void ScreenSource::fill(std::span<const uint64_t> places, ScreenBatch& out) const {
  out.samples_.assign(places.begin(), places.end());
  if (selection_) {
    for (uint64_t& sample : out.samples_) sample = (*selection_)[sample];
  }
  const bool wide_ptr = samples_.ptr.dtype() == DType::u64;
  if (samples_.removed.dtype() == DType::u16) {
    wide_ptr ? fill_removed<uint64_t, uint16_t>(out) : fill_removed<uint32_t, uint16_t>(out);
  } else {
    wide_ptr ? fill_removed<uint64_t, uint32_t>(out) : fill_removed<uint32_t, uint32_t>(out);
  }
  fill_labels(out);
  fill_columns(out);
}

template <class Ptr, class Index>
void ScreenSource::fill_removed(ScreenBatch& out) const {
  const std::span<const Ptr> ptr = samples_.ptr.as<Ptr>();
  const std::span<const Index> removed = samples_.removed.as<Index>();
  out.ptr_.resize(out.samples_.size() + 1);

  // Two passes, so that the cache misses of all samples of the batch overlap.
  uint64_t total = 0;
  for (uint64_t b = 0; b < out.size(); ++b) {
    const uint64_t sample = out.samples_[b];
    const uint64_t begin = ptr[sample], end = ptr[sample + 1];
    if (begin > end || end > removed.size()) throw_bad_ptr(sample, begin, end, removed.size());
    __builtin_prefetch(removed.data() + begin);
    total += end - begin;
    out.ptr_[b + 1] = int32_t(total);
  }
  if (total > uint64_t(std::numeric_limits<int32_t>::max())) {
    throw Error("a batch of {} samples removes {} genes in all; choose a smaller batch", out.size(),
                total);
  }

  out.removed_.resize(total);
  int32_t* to = out.removed_.data();
  bool valid = true;
  for (const uint64_t sample : out.samples_) {
    for (uint64_t place = ptr[sample]; place < ptr[sample + 1]; ++place) {
      const uint32_t index = removed[place];
      valid &= index < gene_count_;
      *to++ = int32_t(index);
    }
  }
  if (!valid) throw_bad_index(out, gene_count_);
}

void ScreenSource::fill_labels(ScreenBatch& out) const {
  out.label_count_ = samples_.label_count();
  out.labels_.resize(out.size() * out.label_count_);
  gather(samples_.labels.as<float>().data(), out.samples_, out.label_count_, out.labels_.data());
}

void ScreenSource::fill_columns(ScreenBatch& out) const {
  out.columns_.resize(samples_.columns.size());
  for (size_t c = 0; c < samples_.columns.size(); ++c) {
    const Array& values = samples_.columns[c].values;
    ColumnValues& column = out.columns_[c];
    const uint64_t item = item_size(values.dtype());
    column.dtype_ = values.dtype();
    column.bytes_.resize(out.size() * item);
    const std::byte* in = values.bytes().data();
    std::byte* to = column.bytes_.data();
    // A fixed size lets the compiler make each copy one load and one store.
    const auto copy = [&](auto size) {
      for (const uint64_t sample : out.samples_) {
        std::memcpy(to, in + sample * size, size);
        to += size;
      }
    };
    if (item == 1) copy(std::integral_constant<size_t, 1>());
    if (item == 2) copy(std::integral_constant<size_t, 2>());
    if (item == 4) copy(std::integral_constant<size_t, 4>());
    if (item == 8) copy(std::integral_constant<size_t, 8>());
  }
}

}  // namespace lacuna
