// Tables of text: TSV and CSV, as text_file.h reads them, with a header line or without; read row
// by row, in memory that does not grow with the file.
//
//   TableReader table({"networks/physical.tsv.gz"});
//   const size_t source = table.column("source");
//   while (table.next()) use(table.cells()[source]);        // table.where() = "physical.tsv.gz:12"
//
// Cells of a CSV may be quoted ("a, ""b"""), and quoted ones may hold line breaks; other tables
// have no quotes. An apostrophe before = + - or @ is taken off (core/text/csv.h). Empty lines are
// skipped, and so are spaces around the names of columns. A first line that begins with kShardMark
// is a note, not a part of the table. Throws Error with file and line for a row
// with too few or too many cells, and a stray or unclosed quote; and for a damaged file
// (text_file.h), an empty one, and anything that is not a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/screen/import/text_file.h"

namespace lacuna {

// Begins what a file of predictions says of itself: run/predict/prediction_shard.h.
inline constexpr std::string_view kShardMark = "# lacuna shard ";

struct TableSource {
  fs::path path;
  // Between cells. Not set: a comma for .csv, a tab for .tsv, .tab and .txt (before .gz); an Error
  // for other names. Only with a comma or a semicolon are cells quoted.
  std::optional<char> separator = {};
  bool header = true;  // false: the first line is data; columns are called 1, 2, ...
  char decimal = '.';  // or ',': in numbers
  // True: the header may lack the name of the first column, as R writes a table with row names.
  bool row_names = false;
  std::string sheet = {};  // of an .xlsx: which; empty: the first
  // The file that is read in place of `path`, which messages name: the text of an .xlsx.
  fs::path contents = {};
};

class TableReader {
 public:
  explicit TableReader(const TableSource& source);

  const fs::path& path() const { return path_; }
  const std::vector<std::string>& header() const { return header_; }
  const std::string& note() const { return note_; }  // the line before the header; mostly empty
  char decimal() const { return decimal_; }
  size_t column(std::string_view name) const;  // throws Error, listing what there is

  bool next();  // false after the last row
  // As many as the header has; valid until the next call of next().
  const std::vector<std::string_view>& cells() const { return cells_; }
  uint64_t line() const { return line_; }  // where this row starts; the first is line 1
  std::string where() const;               // "physical.tsv.gz:12"
  uint64_t bytes_read() const { return file_.bytes_read(); }  // of the file on disk
  uint64_t bytes() const { return file_.bytes(); }

 private:
  void take_header(bool is_data);
  bool next_record();  // finds the next line (or quoted lines), without its line end
  bool refill();
  void split_record();
  char* split_quoted(char* at, char* end);

  fs::path path_;
  char separator_;
  bool quotes_;
  char decimal_;
  bool may_lack_first_;              // the header, the name of the first column
  bool first_record_waits_ = false;  // for next(): without a header it is a row
  TextFile file_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;                // unread part of the buffer
  size_t record_begin_ = 0, record_end_ = 0;  // this record
  uint64_t line_ = 0, next_line_ = 1;
  static constexpr size_t kTwice = SIZE_MAX;
  std::string note_;
  std::vector<std::string> header_;
  std::unordered_map<std::string, size_t> places_;  // in the header, by name; or kTwice
  std::vector<std::string_view> cells_;
};

std::string_view trimmed(std::string_view cell);  // without spaces around it

// The number in a cell; NaN for a missing one (an empty cell, NA, N/A, n/a, #N/A, NaN or nan);
// nothing for a cell that holds something else, infinity included. The minus may be Unicode's
// (U+2212). With a decimal comma a point is no part of a number.
std::optional<double> parse_number(std::string_view cell, char decimal = '.');

}  // namespace lacuna
