#include "lacuna/screen/import/json_lmdb.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/screen/import/json_record.h"
#include "lacuna/store/lmdb_records.h"

namespace lacuna {
namespace {

constexpr size_t kRecordsPerThread = 64;  // read between two appends; a few MB

uint64_t number_of_key(std::string_view key, const std::string& path) {
  uint64_t number = 0;
  const char* const end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, number);
  if (key.empty() || stop != end || error != std::errc() || number > INT64_MAX)
    throw Error("{}: key '{}' is not a decimal number; keys are sample numbers as text", path, key);
  return number;
}

// A record on its way from the database to the samples.
struct Pending {
  uint64_t key;
  std::span<const std::byte> value;
  uint64_t hash;
  JsonRecord record;
  std::string broken;  // why it is broken, or empty
};

class RecordImport {
 public:
  RecordImport(const JsonLmdbOptions& options, const Names& genes,
               MissingLabelPolicy missing_labels, DuplicatePolicy duplicates,
               ImportContext& context, SampleRows& rows)
      : options_(options),
        path_(options.path.string()),
        missing_labels_(missing_labels),
        duplicates_(duplicates),
        context_(context),
        rows_(rows),
        records_(tally("records")),
        samples_(tally("samples")),
        reader_(genes, options.names, context, path_) {}

  void finish() {
    context_.check_left_out(path_, records_.count,
                            context_.report.count(path_, "records left out: an unknown gene"),
                            reader_.policy());
  }

  void add(const Pending& pending) {
    records_.add();
    key_ = pending.key;
    if (!pending.broken.empty()) return leave_out_broken(pending);
    const JsonRecord& record = pending.record;
    if (!has_wanted_types(record) || !read_genes(record) || !read_labels(record))
      return rows_.leave_out(pending.key);
    if (record.mixed_conditions)
      tally("records whose experiments differ in conditions (those of the first are kept)")
          .add_example([&] { return where(); });
    samples_.add();
    rows_.add(pending.key, removed_);
    for (const auto& [place, label] : labels_) rows_.set_label(place, label.sum / label.count);
    set_columns(record);
  }

 private:
  struct Label {
    double sum = 0, count = 0;
  };

  std::string where() const { return fmt::format("{}: key {}", path_, key_); }
  Tally& tally(std::string_view what) { return context_.report.tally(path_, what); }

  void leave_out_broken(const Pending& pending) {
    const std::string words = fmt::format("{}: {}", where(), pending.broken);
    if (!options_.drop_broken)
      throw Error("{}; mend it, or say broken=drop to leave out such records", words);
    tally("records left out: broken").add_example([&] { return words; });
    rows_.leave_out(pending.key);
  }

  bool has_wanted_types(const JsonRecord& record) {
    types_.clear();
    for (const auto& perturbation : record.perturbations) types_.insert(perturbation.type);
    const auto wanted = [&](const std::string& type) {
      return std::count(options_.perturbation_types.begin(), options_.perturbation_types.end(),
                        type) > 0;
    };
    if (!options_.perturbation_types.empty() &&
        !std::all_of(types_.begin(), types_.end(), wanted)) {
      tally("records left out: another perturbation type").add_example([&] {
        return fmt::format("{}: {}", where(), fmt::join(types_, "+"));
      });
      return false;
    }
    return true;
  }

  bool read_genes(const JsonRecord& record) {
    removed_.clear();
    for (const auto& perturbation : record.perturbations) {
      if (reader_.read(perturbation.gene, removed_)) continue;
      reader_.refuse(where());
      tally("records left out: an unknown gene").add();
      return false;
    }
    for (auto gene = removed_.begin(); gene != removed_.end(); ++gene)  // the union
      removed_.erase(std::remove(gene + 1, removed_.end(), *gene), removed_.end());
    if (removed_.empty()) tally("records that remove nothing").add_example([&] { return where(); });
    return true;
  }

  bool read_labels(const JsonRecord& record) {
    labels_.clear();
    for (const auto& measurement : record.measurements) {
      if (!measurement.is_number) refuse_number(measurement.label);
      const size_t place = rows_.label(measurement.label);
      if (std::isnan(measurement.value)) continue;
      Label& label = labels_[place];
      if (label.count > 0 && duplicates_ == DuplicatePolicy::keep)
        throw Error(
            "{}: label '{}' is measured several times in one record; --duplicates mean or first "
            "says which value to take",
            where(), measurement.label);
      if (label.count > 0)
        tally("labels measured again in one record").add_example([&] { return where(); });
      if (label.count > 0 && duplicates_ == DuplicatePolicy::first) continue;
      label.sum += measurement.value;
      label.count += 1;
    }
    if (!labels_.empty()) return true;
    if (missing_labels_ == MissingLabelPolicy::error)
      throw Error(
          "{}: no label; --missing-labels keep stores it as not measured, drop leaves it out",
          where());
    tally("records without a label").add_example([&] { return where(); });
    return missing_labels_ == MissingLabelPolicy::keep;
  }

  void refuse_number(const std::string& label) {
    if (context_.non_numbers == NonNumberPolicy::error)
      throw Error("{}: label '{}' is not a number; --non-numbers missing reads it as missing",
                  where(), label);
    tally("labels that are not numbers").add_example([&] { return where(); });
  }

  void set_columns(const JsonRecord& record) {
    std::set<std::string_view> seen;
    for (const auto& measurement : record.measurements)
      if (!measurement.statistic_name.empty() && seen.insert(measurement.statistic_name).second)
        rows_.set_number(rows_.number(measurement.statistic_name), measurement.statistic);
    const JsonRecord::Conditions& conditions = record.conditions;
    if (!std::isnan(conditions.temperature))
      rows_.set_number(rows_.number("temperature"), conditions.temperature);
    for (const std::string& type : types_)
      tally("records with perturbation type '" + type + "'").add();
    set_category("perturbation_type", fmt::format("{}", fmt::join(types_, "+")));
    set_category("media", conditions.media);
    set_category("media_state", conditions.media_state);
    set_category("temperature_unit", conditions.temperature_unit);
    set_category("experiment_type", conditions.experiment_type);
    set_category("dataset_name", conditions.dataset_name);
  }

  void set_category(std::string_view name, std::string_view value) {
    if (!value.empty()) rows_.set_category(rows_.category(name), value);
  }

  const JsonLmdbOptions& options_;
  std::string path_;
  MissingLabelPolicy missing_labels_;
  DuplicatePolicy duplicates_;
  ImportContext& context_;
  SampleRows& rows_;
  Tally& records_;
  Tally& samples_;
  GeneReader reader_;
  // of the record at hand
  uint64_t key_ = 0;
  std::vector<uint32_t> removed_;
  std::map<size_t, Label> labels_;
  std::set<std::string> types_;
};

// Reads pending[i] for i = piece, piece + step, ...
void read_piece(JsonRecordReader& reader, std::span<Pending> pending, size_t piece, size_t step) {
  for (size_t i = piece; i < pending.size(); i += step) {
    pending[i].broken.clear();
    pending[i].hash = hash64(pending[i].value);
    try {
      reader.read(pending[i].value, pending[i].record);
    } catch (const Error& error) {
      pending[i].broken = error.what();
    }
  }
}

}  // namespace

void import_json(const JsonLmdbOptions& options, const Names& genes,
                 MissingLabelPolicy missing_labels, DuplicatePolicy duplicates, int threads,
                 ImportContext& context, SampleRows& rows) {
  LmdbRecords records(options.path);
  const std::string path = options.path.string();
  RecordImport import(options, genes, missing_labels, duplicates, context, rows);
  const size_t pieces = size_t(threads > 0 ? threads : available_threads());
  std::vector<JsonRecordReader> readers(pieces);
  std::vector<Pending> pending(pieces * kRecordsPerThread);
  Hasher hasher;  // of all keys and values, so that the checksum needs no second pass

  uint64_t done = 0;
  context.progress.begin("reading " + path, records.entries(), "records");
  for (size_t count = pending.size(); count == pending.size(); done += count) {
    count = 0;
    while (count < pending.size() && records.next()) {
      pending[count].key = number_of_key(records.key(), path);
      pending[count++].value = records.value();
    }
    const std::span<Pending> batch(pending.data(), count);
    parallel_for(pieces, threads, [&](uint64_t p) { read_piece(readers[p], batch, p, pieces); });
    for (const Pending& record : batch) {
      const uint64_t words[2] = {record.key, record.hash};
      hasher.add(std::as_bytes(std::span(words)));
      import.add(record);
    }
    context.progress.advance(done + count);
  }
  context.progress.end();
  import.finish();
  context.sources.push_back({{"path", path},
                             {"bytes", records.file_bytes()},
                             {"records", done},
                             {"xxh3_of_records", hex(hasher.value())}});
}

}  // namespace lacuna
