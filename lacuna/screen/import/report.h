// What an import found: counts with a few examples, by source. Printed by the program, kept in the
// manifest of the screen.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/core/text/printable.h"
#include "lacuna/screen/import/table.h"
#include "lacuna/store/directory.h"

namespace lacuna {

// One thing that is counted in one source: "rows", "rows left out: an unknown gene".
struct Tally {
  static constexpr size_t kExamples = 5;  // the first ones are kept, made printable

  std::string source, what;
  uint64_t count = 0;
  std::vector<std::string> examples;

  void add(uint64_t n = 1) { count += n; }
  template <class MakeExample>
  void add_example(MakeExample make) {
    if (examples.size() < kExamples) examples.push_back(printable(make()));
    ++count;
  }
};

// A name in a source that is no gene of the screen.
struct UnknownName {
  std::string source, where;  // where: the first place, "s.tsv:12"
  std::string cell;           // what stands there
  std::string name;           // what was looked up: what `pattern` took out of it, or the same
  bool has_match = true;      // false: the pattern found nothing in it
  bool is_error = false;      // the policy of its source
  uint64_t count = 0;         // rows that are left out for it
  bool is_ambiguous = false;  // an alias of several genes
  std::string why = {};       // for people, as explain_unknown() (gene_names.h) fills it in
};

class ImportReport {
 public:
  std::deque<UnknownName> unknown_names;  // all of them; references stay valid
  std::vector<std::string> problems;      // for which nothing is written, each a whole message

  // The tally of this source and name, started at 0 when new; the reference stays valid.
  Tally& tally(std::string_view source, std::string_view what);
  const std::deque<Tally>& tallies() const { return tallies_; }
  uint64_t count(std::string_view source, std::string_view what) const;  // 0 when never met
  Json to_json() const;  // {source: {what: count or {"count", "examples"}}}

 private:
  std::deque<Tally> tallies_;
  std::map<std::pair<std::string, std::string>, size_t> places_;  // by source and what
};

// A name that is no gene of the screen. drop is an error where it leaves out more than half of the
// rows of a table; drop_most is not.
enum class UnknownPolicy { error, drop, drop_most };
enum class NonNumberPolicy { error, missing };  // a cell that should be a number and is not
enum class MissingLabelPolicy { keep, drop, error };
enum class DuplicatePolicy { keep, mean, first };

// What all parts of an import share.
struct ImportContext {
  UnknownPolicy unknown = UnknownPolicy::error;
  NonNumberPolicy non_numbers = NonNumberPolicy::error;
  ImportReport& report;
  Progress& progress;
  Json sources = Json::array();  // {"path", "bytes", "xxh3"} of every file that was read

  void add_source(const fs::path& path);  // reads the file once for its checksum
  // Notes a problem where the policy is drop and most rows are left out for unknown genes.
  void check_left_out(const std::string& source, uint64_t rows, uint64_t left_out,
                      UnknownPolicy policy);
};

// The number in a cell of the table's row: NaN when missing, or when the cell is not a number (or
// too large for an f32) and the policy allows that, counted in `tally`; else throws Error with
// file, line and column.
double number_cell(const TableReader& table, size_t column, NonNumberPolicy policy, Tally& tally);
// The text in a cell, without spaces around it. Throws Error with file, line and column where it is
// not UTF-8: manifests hold nothing else.
std::string_view text_cell(const TableReader& table, size_t column);

}  // namespace lacuna
