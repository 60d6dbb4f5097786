// The samples of an import while they are collected: rows of a table or records of a database, in
// any order, with labels and columns that are added as they turn up.
//
// Every sample has a source number: its row, counted from 0 through all tables in the order they
// were given, or the key of its record. It is kept as the column "row" or "key", and is what index
// lists of splits refer to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lacuna/screen/import/report.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

class SampleRows {
 public:
  // "row" or "key".
  explicit SampleRows(std::string source_name) : source_name_(std::move(source_name)) {}

  // Places of labels, columns and splits, by name; made when new. Throws Error where a number is
  // asked for by the name of a category, or the other way round, and for the 1,001st of a kind.
  size_t label(std::string_view name);
  size_t number(std::string_view name);
  size_t category(std::string_view name);
  size_t split(std::string_view name);

  // A new sample, of which nothing else is known yet: NaN, unknown, unused. The set_*() fill it in.
  void add(uint64_t source, std::span<const uint32_t> removed);
  void set_label(size_t place, double value) { set(labels_[place].values, value); }
  void set_number(size_t place, double value) { set(numbers_[place].values, value); }
  void set_category(size_t place, std::string_view value);  // empty: unknown
  void set_split(size_t place, Part part);
  // A source row or record that gives no sample.
  void leave_out(uint64_t source) { sources_.push_back({source, kNone}); }

  bool has_column(std::string_view name) const;  // a number or a category
  uint64_t size() const { return ptr_.size() - 1; }
  std::span<const uint32_t> removed(uint64_t sample) const {
    return {removed_.data() + ptr_[sample], ptr_[sample + 1] - ptr_[sample]};
  }

  // Orders samples by source number. Throws Error when two have the same.
  void sort_by_source();

  // Finds samples that remove the same set of genes and agree in the columns `within` (those that
  // exist), counts the later ones in `tally`, and does what the policy says:
  //   keep   nothing
  //   first  the first one (by source number) stands for all
  //   mean   the same, with labels averaged over those that were measured. Of each label, columns
  //          say how many that were and their standard deviation (screen/noise.h has the columns'
  //          names); a number that is not the same in all repeats (a p-value) becomes missing,
  //          because it is not the mean's
  // Where samples were merged, the column "repeats" says how many each one stands for. Returns what
  // the repeats say about the noise of labels, under every policy. Throws Error when repeats lie in
  // different parts of a split.
  std::vector<LabelNoise> merge_repeats(DuplicatePolicy policy,
                                        const std::vector<std::string>& within, Tally& tally,
                                        Tally& differing, const Names& genes);

  enum class Found { sample, left_out, nothing };
  struct Lookup {
    Found found;
    uint64_t sample;
  };
  // The sample of a source number; after sort_by_source().
  Lookup find(uint64_t source) const;
  const std::string& source_name() const { return source_name_; }

  // Numbers become f32, or f64 where f32 would lose an integer or a magnitude; categories the
  // smallest unsigned type that leaves its largest code for "unknown".
  Samples samples(uint32_t gene_count) const;
  std::vector<Split> splits() const;  // from set_split()

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr uint32_t kUnknown = UINT32_MAX;
  struct Numbers {
    std::string name;
    std::vector<double> values;  // shorter than the samples: the rest is NaN
  };
  struct Categories {
    std::string name;
    std::vector<uint32_t> codes;  // shorter than the samples: the rest is unknown
    std::vector<std::string> names;
    std::unordered_map<std::string, uint32_t> index;
  };
  struct Parts {
    std::string name;
    std::vector<uint8_t> parts;
  };
  struct Source {
    uint64_t number, sample;
  };

  void set(std::vector<double>& values, double value);
  void pad();
  uint64_t source_of(uint64_t sample) const { return source_[sample]; }
  // Keeps the samples order[0], order[1], ...; new_place[s] is where sample s (or what stands for
  // it) goes.
  void select(const std::vector<uint64_t>& order, const std::vector<uint64_t>& new_place);
  std::vector<uint64_t> first_of_each(const std::vector<std::string>& within) const;
  struct Spread {  // of a label over each set of repeats; at the place of its first sample
    std::vector<double> count, mean, squares;  // [S] squares: of distances from the mean
  };
  Spread spread_of(const Numbers& label, const std::vector<uint64_t>& first) const;
  std::vector<LabelNoise> noise_of(const Numbers& label, const Spread& spread,
                                   const std::vector<uint64_t>& first, const Categories* of) const;
  const Categories* screens_in(const std::vector<std::string>& within) const;
  void forget_what_differs(const std::vector<uint64_t>& first, Tally& differing);
  void check_splits_agree(uint64_t first, uint64_t later) const;
  void average(size_t label, const Spread& spread);

  std::string source_name_;
  std::vector<uint32_t> removed_;
  std::vector<uint64_t> ptr_ = {0};
  std::vector<uint64_t> source_;  // [S]
  std::vector<Source> sources_;   // also those left out
  std::vector<Numbers> labels_, numbers_;
  std::vector<Categories> categories_;
  std::vector<Parts> splits_;
};

}  // namespace lacuna
