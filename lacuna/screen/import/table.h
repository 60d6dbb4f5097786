// Tables of text: TSV and CSV, plain or gzip, with a header line; read row by row, in memory that
// does not grow with the file.
//
//   TableReader table({"networks/physical.tsv.gz"});
//   const size_t source = table.column("source");
//   while (table.next()) use(table.cells()[source]);        // table.where() = "physical.tsv.gz:12"
//
// Cells of a CSV may be quoted ("a, ""b"""), and quoted ones may hold line breaks; other tables
// have no quotes. An apostrophe before = + - or @ is taken off (core/text/csv.h). Line ends are \n
// or \r\n; a leading byte order mark and empty lines are skipped. Throws Error with file and line
// for a row with too few or too many cells, and a stray or unclosed quote; and for a damaged gzip
// file (store/gzip.h), an empty file, and anything that is not a file.
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
#include "lacuna/store/gzip.h"

namespace lacuna {

struct TableSource {
  fs::path path;
  // Between cells. Not set: a comma for .csv, a tab for .tsv, .tab and .txt (before .gz); an Error
  // for other names. Only with a comma or a semicolon are cells quoted.
  std::optional<char> separator = {};
};

class TableReader {
 public:
  explicit TableReader(const TableSource& source);

  const fs::path& path() const { return path_; }
  const std::vector<std::string>& header() const { return header_; }
  size_t column(std::string_view name) const;  // throws Error, listing what there is

  bool next();  // false after the last row
  // As many as the header has; valid until the next call of next().
  const std::vector<std::string_view>& cells() const { return cells_; }
  uint64_t line() const { return line_; }  // where this row starts; the header is line 1
  std::string where() const;               // "physical.tsv.gz:12"
  uint64_t bytes_read() const { return file_.bytes_read(); }  // of the file on disk
  uint64_t bytes() const { return file_.bytes(); }

 private:
  bool next_record();  // finds the next line (or quoted lines), without its line end
  bool refill();
  void split_record();
  char* split_quoted(char* at, char* end);

  fs::path path_;
  char separator_;
  bool quotes_;
  GzipFile file_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;                // unread part of the buffer
  size_t record_begin_ = 0, record_end_ = 0;  // this record
  uint64_t line_ = 0, next_line_ = 1;
  static constexpr size_t kTwice = SIZE_MAX;
  std::vector<std::string> header_;
  std::unordered_map<std::string, size_t> places_;  // in the header, by name; or kTwice
  std::vector<std::string_view> cells_;
};

std::string_view trimmed(std::string_view cell);  // without spaces around it

// The number in a cell; NaN for a missing one (an empty cell, NA, NaN or nan); nothing for a cell
// that holds something else, infinity included.
std::optional<double> parse_number(std::string_view cell);

}  // namespace lacuna
