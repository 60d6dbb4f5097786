#include "lacuna/screen/import/sample_rows.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"

namespace lacuna {
namespace {

constexpr size_t kMostOfAKind = 1000;  // of a kind: each has a place for every sample

template <class T>
size_t place_of(std::vector<T>& list, std::string_view name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name) return i;
  if (list.size() == kMostOfAKind)
    throw Error(
        "'{}' would be label or column {}; a screen has up to {}: does every sample name "
        "its own?",
        name, kMostOfAKind + 1, kMostOfAKind);
  list.emplace_back().name = name;
  return list.size() - 1;
}

template <class T>
bool has(const std::vector<T>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](const T& e) { return e.name == name; });
}

template <class T>
void gather(std::vector<T>& values, const std::vector<uint64_t>& order) {
  std::vector<T> gathered(order.size());
  for (size_t i = 0; i < order.size(); ++i) gathered[i] = values[order[i]];
  values = std::move(gathered);
}

bool fits_float(double value) {
  if (std::isnan(value) || value == 0) return true;
  if (std::fabs(value) < double(FLT_MIN) || std::fabs(value) > double(FLT_MAX)) return false;
  return value != std::floor(value) || double(float(value)) == value;  // integers stay exact
}

Array number_array(const std::vector<double>& values) {
  if (!std::all_of(values.begin(), values.end(), fits_float)) return Array::from(values);
  return Array::from(std::vector<float>(values.begin(), values.end()));
}

template <class T>
Array code_array(const std::vector<uint32_t>& codes) {
  return Array::from(std::vector<T>(codes.begin(), codes.end()));  // unknown: all ones in any width
}

Array category_array(const std::vector<uint32_t>& codes, size_t category_count) {
  if (category_count <= UINT8_MAX) return code_array<uint8_t>(codes);
  if (category_count <= UINT16_MAX) return code_array<uint16_t>(codes);
  return code_array<uint32_t>(codes);
}

Array source_array(const std::vector<uint64_t>& numbers) {
  const auto largest = std::max_element(numbers.begin(), numbers.end());
  if (largest == numbers.end() || *largest <= UINT32_MAX)
    return Array::from(std::vector<uint32_t>(numbers.begin(), numbers.end()));
  return Array::from(std::vector<int64_t>(numbers.begin(), numbers.end()));
}

// The same for numbers that are the same(): NaN has many forms, and 0 has two.
uint64_t word_of(double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

size_t SampleRows::label(std::string_view name) { return place_of(labels_, name); }

size_t SampleRows::number(std::string_view name) {
  if (has(categories_, name))
    throw Error("column '{}' is a category in one place and a number in another; rename one", name);
  return place_of(numbers_, name);
}

size_t SampleRows::category(std::string_view name) {
  if (has(numbers_, name))
    throw Error("column '{}' is a number in one place and a category in another; rename one", name);
  return place_of(categories_, name);
}

size_t SampleRows::split(std::string_view name) { return place_of(splits_, name); }

bool SampleRows::has_column(std::string_view name) const {
  return has(numbers_, name) || has(categories_, name);
}

void SampleRows::add(uint64_t source, std::span<const uint32_t> removed) {
  sources_.push_back({source, size()});
  source_.push_back(source);
  removed_.insert(removed_.end(), removed.begin(), removed.end());
  ptr_.push_back(removed_.size());
}

void SampleRows::set(std::vector<double>& values, double value) {
  values.resize(size(), NAN);
  values.back() = value;
}

void SampleRows::set_category(size_t place, std::string_view value) {
  if (value.empty()) return;
  Categories& column = categories_[place];
  const auto [entry, is_new] =
      column.index.try_emplace(std::string(value), uint32_t(column.names.size()));
  if (is_new) column.names.emplace_back(value);
  column.codes.resize(size(), kUnknown);
  column.codes.back() = entry->second;
}

void SampleRows::set_split(size_t place, Part part) {
  splits_[place].parts.resize(size(), uint8_t(Part::unused));
  splits_[place].parts.back() = uint8_t(part);
}

void SampleRows::pad() {
  for (Numbers& column : labels_) column.values.resize(size(), NAN);
  for (Numbers& column : numbers_) column.values.resize(size(), NAN);
  for (Categories& column : categories_) column.codes.resize(size(), kUnknown);
  for (Parts& split : splits_) split.parts.resize(size(), uint8_t(Part::unused));
}

void SampleRows::select(const std::vector<uint64_t>& order,
                        const std::vector<uint64_t>& new_place) {
  for (Numbers& column : labels_) gather(column.values, order);
  for (Numbers& column : numbers_) gather(column.values, order);
  for (Categories& column : categories_) gather(column.codes, order);
  for (Parts& split : splits_) gather(split.parts, order);
  gather(source_, order);
  for (Source& source : sources_)
    if (source.sample != kNone) source.sample = new_place[source.sample];
  std::vector<uint32_t> removed_genes;
  std::vector<uint64_t> ptr = {0};
  removed_genes.reserve(removed_.size());
  ptr.reserve(order.size() + 1);
  for (const uint64_t sample : order) {
    const auto genes = removed(sample);
    removed_genes.insert(removed_genes.end(), genes.begin(), genes.end());
    ptr.push_back(removed_genes.size());
  }
  removed_ = std::move(removed_genes);
  ptr_ = std::move(ptr);
}

void SampleRows::sort_by_source() {
  pad();
  std::vector<uint64_t> order(size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint64_t a, uint64_t b) { return source_of(a) < source_of(b); });
  std::vector<uint64_t> new_place(size());
  for (uint64_t i = 0; i < order.size(); ++i) new_place[order[i]] = i;
  select(order, new_place);
  std::sort(sources_.begin(), sources_.end(),
            [](const Source& a, const Source& b) { return a.number < b.number; });
  for (size_t i = 1; i < sources_.size(); ++i)
    if (sources_[i].number == sources_[i - 1].number)
      throw Error(
          "{} {} is there twice; keys that differ only in leading zeros are the same number",
          source_name_, sources_[i].number);
}

// For every sample the first one that is the same.
std::vector<uint64_t> SampleRows::first_of_each(const std::vector<std::string>& within) const {
  std::vector<const Numbers*> numbers;
  std::vector<const Categories*> categories;
  for (const std::string& name : within) {
    for (const Numbers& column : numbers_)
      if (column.name == name) numbers.push_back(&column);
    for (const Categories& column : categories_)
      if (column.name == name) categories.push_back(&column);
  }
  std::vector<uint32_t> sorted = removed_;
  struct Hashed {
    uint64_t hash, sample;
  };
  std::vector<Hashed> hashed(size());
  std::vector<uint64_t> words;  // of a sample: all that must be the same
  for (uint64_t s = 0; s < size(); ++s) {
    const auto begin = sorted.begin() + ptrdiff_t(ptr_[s]),
               end = sorted.begin() + ptrdiff_t(ptr_[s + 1]);
    std::sort(begin, end);
    words.assign(1, hash64(std::as_bytes(std::span(begin, end))));
    for (const Numbers* column : numbers) words.push_back(word_of(column->values[s]));
    for (const Categories* column : categories) words.push_back(column->codes[s]);
    hashed[s] = {hash64(std::as_bytes(std::span(words))), s};
  }
  const auto is_same = [&](uint64_t a, uint64_t b) {
    return std::equal(sorted.begin() + ptrdiff_t(ptr_[a]), sorted.begin() + ptrdiff_t(ptr_[a + 1]),
                      sorted.begin() + ptrdiff_t(ptr_[b]),
                      sorted.begin() + ptrdiff_t(ptr_[b + 1])) &&
           std::all_of(numbers.begin(), numbers.end(),
                       [&](auto* column) { return same(column->values[a], column->values[b]); }) &&
           std::all_of(categories.begin(), categories.end(),
                       [&](auto* column) { return column->codes[a] == column->codes[b]; });
  };
  std::sort(hashed.begin(), hashed.end(), [](const Hashed& a, const Hashed& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.sample < b.sample;
  });
  std::vector<uint64_t> first(size());
  for (size_t begin = 0, end; begin < hashed.size(); begin = end) {
    for (end = begin; end < hashed.size() && hashed[end].hash == hashed[begin].hash;) ++end;
    std::vector<uint64_t> firsts;  // usually one
    for (size_t i = begin; i < end; ++i) {
      const uint64_t sample = hashed[i].sample;
      const auto found = std::find_if(firsts.begin(), firsts.end(),
                                      [&](uint64_t other) { return is_same(other, sample); });
      first[sample] = found == firsts.end() ? sample : *found;
      if (found == firsts.end()) firsts.push_back(sample);
    }
  }
  return first;
}

void SampleRows::check_splits_agree(uint64_t first, uint64_t later) const {
  for (const Parts& split : splits_)
    if (split.parts[first] != split.parts[later])
      throw Error(
          "{} {} repeats {} {}, but they are in different parts of split '{}'; use --duplicates "
          "keep",
          source_name_, source_of(later), source_name_, source_of(first), split.name);
}

SampleRows::Spread SampleRows::spread_of(const Numbers& label,
                                         const std::vector<uint64_t>& first) const {
  const std::vector<double> none(size(), 0);
  Spread spread = {none, none, none};
  for (uint64_t s = 0; s < size(); ++s) {
    if (std::isnan(label.values[s])) continue;
    spread.count[first[s]] += 1;
    spread.mean[first[s]] += label.values[s];
  }
  for (uint64_t s = 0; s < size(); ++s) spread.mean[s] /= spread.count[s];  // 0 / 0 is NaN
  for (uint64_t s = 0; s < size(); ++s) {
    const double distance = label.values[s] - spread.mean[first[s]];
    if (!std::isnan(distance)) spread.squares[first[s]] += distance * distance;
  }
  return spread;
}

// Of sets with two measurements or more. Where all of them are exactly the same they are copies of
// one measurement, as in a table that lists a pair both ways, and say nothing about noise.
std::vector<LabelNoise> SampleRows::noise_of(const Numbers& label, const Spread& spread,
                                             const std::vector<uint64_t>& first,
                                             const Categories* of) const {
  std::vector<bool> differs(size(), false);
  std::vector<double> one(size(), NAN);
  for (uint64_t s = 0; s < size(); ++s) {
    if (std::isnan(label.values[s])) continue;
    double& value = one[first[s]];
    if (std::isnan(value)) value = label.values[s];
    if (value != label.values[s]) differs[first[s]] = true;
  }
  std::map<uint32_t, LabelNoise> noise;  // by category
  for (uint64_t s = 0; s < size(); ++s) {
    if (first[s] != s || !differs[s]) continue;
    const uint32_t code = of != nullptr ? of->codes[s] : 0;
    if (of != nullptr && code >= of->names.size()) continue;  // unknown
    LabelNoise& here = noise[code];
    here.variance += spread.squares[s];
    here.sets += 1;
    here.repeats += uint64_t(spread.count[s]);
  }
  std::vector<LabelNoise> kept;
  for (auto& [code, here] : noise) {
    if (here.sets < kFewestRepeatSets) continue;
    here.label = label.name;
    if (of != nullptr) here.column = of->name;
    if (of != nullptr) here.category = of->names[code];
    here.variance /= double(here.repeats - here.sets);
    kept.push_back(here);
  }
  return kept;
}

// The column that says which screen a sample is of, where repeats are searched within one.
const SampleRows::Categories* SampleRows::screens_in(const std::vector<std::string>& within) const {
  for (const Categories& column : categories_)
    if ((column.name == "screen" || column.name == "dataset_name") &&
        std::find(within.begin(), within.end(), column.name) != within.end())
      return &column;
  return nullptr;
}

// A number that differs between repeats is that of one measurement, not of their mean.
void SampleRows::forget_what_differs(const std::vector<uint64_t>& first, Tally& differing) {
  for (Numbers& column : numbers_) {
    std::vector<bool> differs(size(), false);
    for (uint64_t s = 0; s < size(); ++s)
      if (!same(column.values[s], column.values[first[s]])) differs[first[s]] = true;
    for (uint64_t s = 0; s < size(); ++s) {
      if (!differs[s]) continue;
      differing.add_example(
          [&] { return fmt::format("'{}' of {} {}", column.name, source_name_, source_of(s)); });
      column.values[s] = NAN;
    }
  }
}

void SampleRows::average(size_t label, const Spread& spread) {
  const std::string name = labels_[label].name;
  labels_[label].values = spread.mean;
  std::vector<double> sd(size(), NAN);
  for (uint64_t s = 0; s < size(); ++s)
    if (spread.count[s] > 1) sd[s] = std::sqrt(spread.squares[s] / (spread.count[s] - 1));
  const auto add = [&](const std::string& column, std::vector<double> values) {
    if (has_column(column))
      throw Error(
          "column '{}' would hold the repeats of label '{}'; store yours under another "
          "name (numbers=NEW:{})",
          column, name, column);
    numbers_.push_back({column, std::move(values)});
  };
  add(repeat_count_column(name), spread.count);
  add(repeat_sd_column(name), std::move(sd));
}

std::vector<LabelNoise> SampleRows::merge_repeats(DuplicatePolicy policy,
                                                  const std::vector<std::string>& within,
                                                  Tally& tally, Tally& differing,
                                                  const Names& genes) {
  pad();
  const std::vector<uint64_t> first = first_of_each(within);
  std::vector<uint64_t> order, new_place(size());
  std::vector<double> repeats(size(), 1);
  for (uint64_t s = 0; s < size(); ++s) {
    if (first[s] == s) {
      new_place[s] = order.size();
      order.push_back(s);
      continue;
    }
    tally.add_example([&] {
      std::vector<std::string> names;
      for (const uint32_t gene : removed(s)) names.push_back(genes.shown(gene));
      return fmt::format("{} {} repeats {} ({})", source_name_, source_of(s), source_of(first[s]),
                         fmt::join(names, " "));
    });
    if (policy == DuplicatePolicy::keep) continue;
    check_splits_agree(first[s], s);
    new_place[s] = new_place[first[s]];
    repeats[first[s]] += 1;
  }
  if (policy == DuplicatePolicy::mean) forget_what_differs(first, differing);
  std::vector<LabelNoise> noise;
  for (size_t l = 0; l < labels_.size(); ++l) {
    const Spread spread = spread_of(labels_[l], first);
    const auto of_label = noise_of(labels_[l], spread, first, screens_in(within));
    noise.insert(noise.end(), of_label.begin(), of_label.end());
    if (policy == DuplicatePolicy::mean) average(l, spread);
  }
  if (policy == DuplicatePolicy::keep) return noise;
  numbers_[number("repeats")].values = std::move(repeats);
  select(order, new_place);
  return noise;
}

SampleRows::Lookup SampleRows::find(uint64_t source) const {
  const auto place =
      std::lower_bound(sources_.begin(), sources_.end(), source,
                       [](const Source& entry, uint64_t number) { return entry.number < number; });
  if (place == sources_.end() || place->number != source) return {Found::nothing, 0};
  if (place->sample == kNone) return {Found::left_out, 0};
  return {Found::sample, place->sample};
}

Samples SampleRows::samples(uint32_t gene_count) const {
  std::vector<std::string> label_names;
  for (const Numbers& label : labels_) label_names.push_back(label.name);
  SampleBuilder builder(gene_count, label_names);
  std::vector<float> values(labels_.size());
  for (uint64_t s = 0; s < size(); ++s) {
    for (size_t l = 0; l < labels_.size(); ++l) values[l] = float(labels_[l].values[s]);
    builder.add(removed(s), values);
  }
  Samples samples = builder.finish();
  samples.columns.push_back({source_name_, source_array(source_), {}});
  for (const Numbers& column : numbers_)
    samples.columns.push_back({column.name, number_array(column.values), {}});
  for (const Categories& column : categories_) {
    // A column without any category would read as one of numbers.
    const std::vector<std::string> none = {"unknown"};
    samples.columns.push_back({column.name, category_array(column.codes, column.names.size()),
                               column.names.empty() ? none : column.names});
  }
  return samples;
}

std::vector<Split> SampleRows::splits() const {
  std::vector<Split> splits;
  for (const Parts& split : splits_)
    splits.push_back(
        {split.name, Array::from(split.parts), {{"from", "column"}, {"column", split.name}}});
  return splits;
}

}  // namespace lacuna
