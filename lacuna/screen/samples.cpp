#include "lacuna/screen/samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/graph/removal.h"

namespace lacuna {
namespace {

constexpr uint64_t kFingerprintBlock = 65536;  // samples in one part of the fingerprint

struct PartName {
  Part part;
  std::string_view name;
};
constexpr std::array<PartName, 4> kPartNames = {{{Part::train, "train"},
                                                 {Part::validation, "validation"},
                                                 {Part::test, "test"},
                                                 {Part::unused, "unused"}}};

// Calls f with the elements in their own type.
template <class F>
auto visit(const Array& array, F&& f) {
  switch (array.dtype()) {
    case DType::u8:
      return f(array.as<uint8_t>());
    case DType::u16:
      return f(array.as<uint16_t>());
    case DType::u32:
      return f(array.as<uint32_t>());
    case DType::i32:
      return f(array.as<int32_t>());
    case DType::i64:
      return f(array.as<int64_t>());
    case DType::f32:
      return f(array.as<float>());
    default:
      return f(array.as<double>());  // throws for what a column cannot be
  }
}

void check_column(const Column& column, uint64_t sample_count) {
  const DType dtype = column.values.dtype();
  if (dtype == DType::bf16 || dtype == DType::u64)
    throw Error("column '{}' is of {}; use f32, f64, u8, u16, u32, i32 or i64", column.name,
                name(dtype));
  if (column.values.shape() != Shape{sample_count})
    throw Error("column '{}' has {} values of shape [{}], but there are {} samples", column.name,
                column.values.size(), fmt::join(column.values.shape(), ", "), sample_count);
  if (!column.is_category()) return;
  if (dtype != DType::u8 && dtype != DType::u16 && dtype != DType::u32)
    throw Error("column '{}' has categories, but its codes are {}; use u8, u16 or u32", column.name,
                name(dtype));
  if (column.categories.size() > unknown_code(dtype))
    throw Error("column '{}' has {} categories, more than {} codes can tell apart", column.name,
                column.categories.size(), name(dtype));
}

void check_codes(const Column& column) {
  for (uint64_t s = 0; s < column.values.size(); ++s) {
    const auto code = column.code(s);
    if (code && *code >= column.categories.size())
      throw Error("sample {} has code {} in column '{}', which has {} categories ({} = unknown)", s,
                  *code, column.name, column.categories.size(),
                  unknown_code(column.values.dtype()));
  }
}

// Lengths first, then the genes: [1] [2 3] and [1 2] [3] differ.
uint64_t hash_block(const RemovedReader& reader, uint64_t begin, uint64_t end) {
  std::vector<uint32_t> counts, genes, of_sample;
  for (uint64_t s = begin; s < end; ++s) {
    reader.read(s, of_sample);
    counts.push_back(uint32_t(of_sample.size()));
    genes.insert(genes.end(), of_sample.begin(), of_sample.end());
  }
  Hasher hasher;
  hasher.add(std::as_bytes(std::span(counts)));
  hasher.add(std::as_bytes(std::span(genes)));
  return hasher.value();
}

uint64_t hash_label(const Samples& samples, uint64_t label) {
  const auto values = samples.labels.as<float>();
  const uint64_t labels = samples.label_count();
  Hasher hasher;
  std::vector<float> piece;
  for (uint64_t s = 0; s < samples.size(); ++s) {
    piece.push_back(values[s * labels + label]);
    if (piece.size() < kFingerprintBlock && s + 1 < samples.size()) continue;
    hasher.add(std::as_bytes(std::span(piece)));
    piece.clear();
  }
  return hasher.value();
}

uint64_t hash_column(const Column& column) {
  Hasher hasher;
  for (const auto& category : column.categories) hasher.add(category + "\n");
  hasher.add(name(column.values.dtype()));
  hasher.add(column.values.bytes());
  return hasher.value();
}

Column label_column(const Samples& samples, uint64_t label) {
  const auto values = samples.labels.as<float>();
  std::vector<float> numbers(samples.size());
  for (uint64_t s = 0; s < numbers.size(); ++s)
    numbers[s] = values[s * samples.label_count() + label];
  return {samples.label_names[label], Array::from(std::move(numbers)), {}};
}

Array make_ptr(std::vector<uint64_t> ptr) {
  if (ptr.back() > 0xffffffffu) return Array::from(std::move(ptr));
  return Array::from(std::vector<uint32_t>(ptr.begin(), ptr.end()));
}

// Rows of an array, whatever its type.
Array take_rows(const Array& array, std::span<const uint64_t> rows) {
  Shape shape = array.shape();
  const uint64_t row_bytes = shape[0] == 0 ? 0 : array.bytes().size() / shape[0];
  auto bytes = std::make_shared<std::vector<std::byte>>(row_bytes * rows.size());
  std::byte* to = bytes->data();
  for (const uint64_t row : rows) {
    LACUNA_ASSERT(row < shape[0]);
    to = std::copy_n(array.bytes().data() + row * row_bytes, row_bytes, to);
  }
  shape[0] = rows.size();
  const std::byte* const data = bytes->data();
  return Array(array.dtype(), std::move(shape), data, std::move(bytes));
}

template <class T>
Array take_removed(const RemovedReader& reader, std::span<const uint64_t> chosen, uint64_t total) {
  std::vector<T> genes;
  genes.reserve(total);
  std::vector<uint32_t> of_sample;
  for (const uint64_t s : chosen) {
    reader.read(s, of_sample);
    genes.insert(genes.end(), of_sample.begin(), of_sample.end());
  }
  return Array::from(std::move(genes));
}

template <class T>
Array codes_as(std::span<const uint32_t> codes, size_t categories) {
  std::vector<T> values(codes.size());
  std::transform(codes.begin(), codes.end(), values.begin(), [&](uint32_t code) {
    return code < categories ? T(code) : std::numeric_limits<T>::max();
  });
  return Array::from(std::move(values));
}

}  // namespace

std::string_view name(Part part) {
  for (const auto& entry : kPartNames)
    if (entry.part == part) return entry.name;
  throw Error("{} is not a part of a split; 0 is train, 1 validation, 2 test, 255 unused",
              int(part));
}

Part part_from_name(std::string_view name) {
  if (name == "val") return Part::validation;
  for (const auto& entry : kPartNames)
    if (entry.name == name) return entry.part;
  throw Error("'{}' is not a part of a split; use train, validation, test or unused", name);
}

uint32_t unknown_code(DType dtype) {
  return dtype == DType::u8 ? 0xffu : dtype == DType::u16 ? 0xffffu : 0xffffffffu;
}

double Column::number(uint64_t sample) const {
  return visit(values, [&](auto elements) { return double(elements[sample]); });
}

std::optional<uint32_t> Column::code(uint64_t sample) const {
  const uint32_t code = visit(values, [&](auto elements) { return uint32_t(elements[sample]); });
  return code == unknown_code(values.dtype()) ? std::nullopt : std::optional(code);
}

Column make_category_column(std::string name, std::span<const uint32_t> codes,
                            std::vector<std::string> categories) {
  const size_t count = categories.size();
  Array values = count <= 0xff     ? codes_as<uint8_t>(codes, count)
                 : count <= 0xffff ? codes_as<uint16_t>(codes, count)
                                   : codes_as<uint32_t>(codes, count);
  return {std::move(name), std::move(values), std::move(categories)};
}

RemovedReader::RemovedReader(const Samples& samples)
    : size_(samples.size()), removed_size_(samples.removed.size()) {
  if (samples.removed.dtype() == DType::u16)
    removed16_ = samples.removed.as<uint16_t>().data();
  else
    removed32_ = samples.removed.as<uint32_t>().data();
  if (samples.ptr.dtype() == DType::u32)
    ptr32_ = samples.ptr.as<uint32_t>().data();
  else
    ptr64_ = samples.ptr.as<uint64_t>().data();
}

uint64_t RemovedReader::begin(uint64_t sample) const {
  if (sample > size_) throw Error("sample {} asked for, but there are {}", sample, size_);
  const uint64_t place = ptr32_ ? ptr32_[sample] : ptr64_[sample];
  if (place > removed_size_)
    throw Error(
        "ptr of sample {} is {}, beyond the {} removed genes; the screen is damaged, see "
        "`lacuna info --check`",
        sample, place, removed_size_);
  return place;
}

uint64_t RemovedReader::count(uint64_t sample) const {
  const uint64_t first = begin(sample), end = begin(sample + 1);
  if (end < first)
    throw Error(
        "ptr falls from {} to {} at sample {}; the screen is damaged, see "
        "`lacuna info --check`",
        first, end, sample);
  return end - first;
}

uint32_t RemovedReader::at(uint64_t place) const {
  if (place >= removed_size_)
    throw Error("removed gene {} asked for, but there are {}", place, removed_size_);
  return removed16_ ? removed16_[place] : removed32_[place];
}

void RemovedReader::read(uint64_t sample, std::vector<uint32_t>& out) const {
  const uint64_t first = begin(sample), many = count(sample);
  if (removed16_)
    out.assign(removed16_ + first, removed16_ + first + many);
  else
    out.assign(removed32_ + first, removed32_ + first + many);
}

SampleBuilder::SampleBuilder(uint32_t gene_count, std::vector<std::string> label_names)
    : gene_count_(gene_count), label_names_(std::move(label_names)) {}

void SampleBuilder::add(std::span<const uint32_t> removed, std::span<const float> labels) {
  LACUNA_ASSERT(labels.size() == label_names_.size());
  check_removed(removed, size(), gene_count_);
  removed_.insert(removed_.end(), removed.begin(), removed.end());
  ptr_.push_back(removed_.size());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
}

Samples SampleBuilder::finish() {
  Samples samples;
  const uint64_t count = size(), labels = label_names_.size();
  samples.removed = gene_count_ <= 0x10000
                        ? Array::from(std::vector<uint16_t>(removed_.begin(), removed_.end()))
                        : Array::from(removed_);
  samples.ptr = make_ptr(std::move(ptr_));
  samples.labels =
      Array::from(std::move(labels_), labels == 1 ? Shape{count} : Shape{count, labels});
  samples.label_names = label_names_;
  removed_.clear();
  labels_.clear();
  ptr_ = {0};
  return samples;
}

Column find_values(const Samples& samples, std::string_view name) {
  constexpr std::string_view kColumn = "column:", kLabel = "label:";
  const bool only_columns = name.starts_with(kColumn), only_labels = name.starts_with(kLabel);
  const std::string_view bare = only_columns  ? name.substr(kColumn.size())
                                : only_labels ? name.substr(kLabel.size())
                                              : name;
  const auto& columns = samples.columns;
  const auto& labels = samples.label_names;
  const auto column =
      std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.name == bare; });
  const auto label = std::find(labels.begin(), labels.end(), bare);
  const bool is_column = !only_labels && column != columns.end();
  const bool is_label = !only_columns && label != labels.end();
  if (is_column && is_label)
    throw Error("'{}' is a column and a label; say column:{} or label:{}", bare, bare, bare);
  if (is_column) return *column;
  if (is_label) return label_column(samples, size_t(label - labels.begin()));
  std::vector<std::string> there;
  for (const auto& c : columns) there.push_back(c.name);
  there.insert(there.end(), labels.begin(), labels.end());
  throw Error("no column or label '{}'; there is {}", bare,
              there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
}

Samples take_samples(const Samples& samples, std::span<const uint64_t> chosen) {
  const RemovedReader reader(samples);
  std::vector<uint64_t> ptr = {0};
  ptr.reserve(chosen.size() + 1);
  for (const uint64_t s : chosen) ptr.push_back(ptr.back() + reader.count(s));
  const uint64_t total = ptr.back();
  Samples taken;
  taken.removed = samples.removed.dtype() == DType::u16
                      ? take_removed<uint16_t>(reader, chosen, total)
                      : take_removed<uint32_t>(reader, chosen, total);
  taken.ptr = make_ptr(std::move(ptr));
  taken.labels = take_rows(samples.labels, chosen);
  taken.label_names = samples.label_names;
  for (const auto& column : samples.columns)
    taken.columns.push_back({column.name, take_rows(column.values, chosen), column.categories});
  return taken;
}

Split take_samples(const Split& split, std::span<const uint64_t> chosen) {
  return {split.name, take_rows(split.parts, chosen), split.how};
}

void check_layout(const Samples& samples) {
  const DType removed = samples.removed.dtype(), ptr = samples.ptr.dtype();
  if ((removed != DType::u16 && removed != DType::u32) || samples.removed.shape().size() != 1)
    throw Error("removed is not a list of u16 or u32");
  if ((ptr != DType::u32 && ptr != DType::u64) || samples.ptr.shape().size() != 1 ||
      samples.ptr.size() == 0)
    throw Error("ptr is not a list of one u32 or u64 a sample and one more");
  const RemovedReader reader(samples);
  const uint64_t count = samples.size(), labels = samples.label_count();
  if (reader.begin(0) != 0 || reader.begin(count) != samples.removed.size())
    throw Error("ptr goes from {} to {}, but should go from 0 to {}, the number of removed genes",
                reader.begin(0), reader.begin(count), samples.removed.size());
  const bool one_label = labels == 1 && samples.labels.shape() == Shape{count};
  if (samples.labels.dtype() != DType::f32 ||
      (!one_label && samples.labels.shape() != Shape{count, labels}))
    throw Error("labels are {} [{}], but {} samples with {} labels need f32 [{}, {}]",
                name(samples.labels.dtype()), fmt::join(samples.labels.shape(), ", "), count,
                labels, count, labels);
  for (const auto& column : samples.columns) check_column(column, count);
}

void check_layout(const Split& split, uint64_t sample_count) {
  if (split.parts.dtype() != DType::u8 || split.parts.shape() != Shape{sample_count})
    throw Error("split '{}' is {} [{}], but {} samples need u8 [{}]", split.name,
                name(split.parts.dtype()), fmt::join(split.parts.shape(), ", "), sample_count,
                sample_count);
}

void check_values(const Samples& samples, uint32_t gene_count, Progress& progress) {
  const RemovedReader reader(samples);
  std::vector<uint32_t> removed;
  progress.begin("checking indices", samples.size(), "samples");
  for (uint64_t s = 0; s < samples.size(); ++s) {
    reader.read(s, removed);
    check_removed(removed, s, gene_count);
    if (s % kFingerprintBlock != 0) continue;
    throw_if_stopped();
    progress.advance(s);
  }
  for (const auto& column : samples.columns)
    if (column.is_category()) check_codes(column);
  progress.end();
}

void check_values(const Split& split) {
  const auto parts = split.parts.as<uint8_t>();
  for (uint64_t s = 0; s < parts.size(); ++s)
    if (parts[s] > 2 && parts[s] != 255)
      throw Error(
          "split '{}' has part {} at sample {}; 0 is train, 1 validation, 2 test, 255 unused",
          split.name, parts[s], s);
}

Fingerprint fingerprint_of_removed(const Samples& samples, uint64_t begin, uint64_t end,
                                   const Fingerprint& known) {
  Fingerprint fingerprint;
  const RemovedReader reader(samples);
  while (begin < end) {
    const uint64_t block_end = std::min((begin / kFingerprintBlock + 1) * kFingerprintBlock, end);
    const std::string name = fmt::format("samples {}:{}", begin, block_end);
    const FingerprintPart* part = known.find(name);
    fingerprint.add(name, part ? part->hash : hash_block(reader, begin, block_end));
    begin = block_end;
  }
  return fingerprint;
}

Fingerprint fingerprint_of(const Samples& samples) {
  Fingerprint fingerprint;
  for (uint64_t begin = 0; begin < samples.size(); begin += kFingerprintBlock) {
    throw_if_stopped();
    const uint64_t end = std::min(begin + kFingerprintBlock, samples.size());
    const Fingerprint block = fingerprint_of_removed(samples, begin, end);
    for (const FingerprintPart& part : block.parts()) fingerprint.add(part.name, part.hash);
  }
  for (uint64_t l = 0; l < samples.label_count(); ++l)
    fingerprint.add("label " + samples.label_names[l], hash_label(samples, l));
  for (const auto& column : samples.columns)
    fingerprint.add("column " + column.name, hash_column(column));
  return fingerprint;
}

}  // namespace lacuna
