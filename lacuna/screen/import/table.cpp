#include "lacuna/screen/import/table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/text/csv.h"

namespace lacuna {
namespace {

constexpr size_t kReadBytes = 1 << 18;
constexpr size_t kMostCells = 1'000'000;
constexpr size_t kShownColumns = 40;         // in a message
constexpr size_t kLongestRecord = 64 << 20;  // longer is not a table, or a quote was never closed

char separator_by_name(const fs::path& path) {
  if (fs::is_directory(path)) throw Error("{}: a directory, not a table", path.string());
  const fs::path name = path.extension() == ".gz" ? path.stem() : path.filename();
  const std::string extension = name.extension().string();
  if (extension == ".csv") return ',';
  if (extension == ".xlsx" || extension == ".xls")
    throw Error("{}: a workbook, not text; save its sheet as CSV{}", path.string(),
                extension == ".xls" ? ", or as .xlsx" : "");
  if (extension == ".tsv" || extension == ".tab" || extension == ".txt") return '\t';
  throw Error(
      "{}: its name does not say what stands between the cells (.tsv, .csv); say separator=tab, "
      "comma, semicolon or space",
      path.string());
}

// What may be wrong with a header that lacks a column.
std::string hint_for(const std::vector<std::string>& header) {
  constexpr std::pair<char, const char*> kSeparators[] = {
      {'\t', "tab"}, {',', "comma"}, {';', "semicolon"}};
  if (header.size() == 1)
    for (const auto& [separator, word] : kSeparators)
      if (header[0].find(separator) != std::string::npos)
        return fmt::format("; that is one cell: is it separator={}?", word);
  const auto is_number = [](const std::string& cell) {
    const auto number = parse_number(cell);
    return number && !std::isnan(*number);
  };
  if (!std::ranges::any_of(header, is_number) || header.front() == "1") return "";
  return "; if its first line is data, say header=no and name columns by number: 1, 2, ...";
}

bool is_missing_word(std::string_view cell) {
  constexpr std::string_view kMissing[] = {"",     "NA",  "N/A", "n/a", "na",
                                           "#N/A", "NaN", "nan", "NAN"};
  return std::ranges::find(kMissing, cell) != std::end(kMissing);
}

std::optional<double> plain_number(std::string_view cell) {
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  double value = 0;
  const char* const end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  if (error == std::errc::result_out_of_range)  // too small for a double is 0, too large is not
    value = std::strtod(std::string(cell).c_str(), nullptr);
  else if (error != std::errc())
    return std::nullopt;
  if (stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// With a plain minus and a decimal point; empty where a number has neither.
std::string in_plain_signs(std::string_view cell, char decimal) {
  constexpr std::string_view kMinus = "\xe2\x88\x92";
  std::string plain;
  for (size_t i = 0; i < cell.size(); ++i) {
    if (cell.substr(i).starts_with(kMinus)) {
      plain += '-';
      i += kMinus.size() - 1;
    } else if (decimal == ',' && cell[i] == '.') {
      return "";
    } else {
      plain += decimal == ',' && cell[i] == ',' ? '.' : cell[i];
    }
  }
  return plain;
}

}  // namespace

TableReader::TableReader(const TableSource& source)
    : path_(source.path),
      separator_(source.separator ? *source.separator : separator_by_name(source.path)),
      quotes_(separator_ == ',' || separator_ == ';'),
      decimal_(source.decimal),
      may_lack_first_(source.row_names),
      file_(source.contents.empty() ? path_ : source.contents) {
  const auto next = [&] {
    if (!next_record()) throw Error("{}: empty; a table starts with a header line", path_.string());
    return std::string_view(buffer_.data() + record_begin_, record_end_ - record_begin_);
  };
  std::string_view record = next();
  if (record.starts_with(kShardMark)) {
    note_ = record;
    record = next();
  }
  if (record.find('\0') != record.npos) throw Error("{}: not a table of text", path_.string());
  split_record();
  take_header(!source.header);
}

void TableReader::take_header(bool is_data) {
  if (cells_.size() > kMostCells)
    throw Error("{}: a header of {} columns, over {}; is it a table?", path_.string(),
                cells_.size(), kMostCells);
  first_record_waits_ = is_data;
  for (size_t c = 0; c < cells_.size(); ++c)
    header_.emplace_back(is_data ? std::to_string(c + 1) : std::string(trimmed(cells_[c])));
  for (size_t c = 0; c < header_.size(); ++c)
    if (const auto [place, is_new] = places_.try_emplace(header_[c], c); !is_new)
      place->second = kTwice;
}

size_t TableReader::column(std::string_view name) const {
  const auto found = places_.find(std::string(trimmed(name)));
  if (found == places_.end()) {
    const size_t shown = std::min<size_t>(header_.size(), kShownColumns);
    throw Error("{}: no column '{}'; it has '{}'{}{}", path_.string(), name,
                fmt::join(header_.begin(), header_.begin() + ptrdiff_t(shown), "', '"),
                shown < header_.size() ? fmt::format(" and {} more", header_.size() - shown) : "",
                hint_for(header_));
  }
  if (found->second == kTwice)
    throw Error("{}: two columns are called '{}'; rename one", path_.string(), name);
  return found->second;
}

bool TableReader::next() {
  if (first_record_waits_) {
    first_record_waits_ = false;
    return true;
  }
  if (!next_record()) return false;
  split_record();
  if (may_lack_first_ && cells_.size() == header_.size() + 1) {
    header_.insert(header_.begin(), "");
    places_.clear();  // nobody has asked for a column yet
    for (size_t c = 0; c < header_.size(); ++c) places_.try_emplace(header_[c], c);
  }
  may_lack_first_ = false;
  if (cells_.size() != header_.size())
    throw Error("{}: {} cells, but the {} has {}", where(), cells_.size(),
                header_.front() == "1" ? "first line" : "header", header_.size());
  return true;
}

std::string TableReader::where() const { return fmt::format("{}:{}", path_.string(), line_); }

// A record ends at a line end outside quotes: one with an even number of quotes before it.
bool TableReader::next_record() {
  while (true) {
    size_t scanned = 0;
    uint64_t lines = 0, quotes = 0;
    bool last = false;
    while (true) {
      const char* from = buffer_.data() + begin_ + scanned;
      const char* to = buffer_.data() + end_;
      const char* line_end = static_cast<const char*>(std::memchr(from, '\n', size_t(to - from)));
      const char* stop = line_end != nullptr ? line_end : to;
      if (quotes_) quotes += uint64_t(std::count(from, stop, '"'));
      scanned = size_t(stop - (buffer_.data() + begin_));
      if (line_end != nullptr) {
        ++lines;
        if (quotes % 2 == 0) break;
        ++scanned;
      } else if (!refill()) {
        last = true;
        break;
      }
      if (scanned > kLongestRecord)
        throw Error("{}:{}: a row of over 64 MB; is a quote not closed?", path_.string(),
                    next_line_);
    }
    line_ = next_line_;
    next_line_ += lines;
    record_begin_ = begin_;
    record_end_ = begin_ + scanned;
    begin_ = last ? end_ : record_end_ + 1;
    if (quotes % 2 != 0) throw Error("{}: a quote is not closed", where());
    if (record_end_ > record_begin_ && buffer_[record_end_ - 1] == '\r') --record_end_;
    if (record_end_ > record_begin_) return true;
    if (last) return false;
  }
}

// Moves the unread part of the buffer to its front and reads on; false at the end of the file.
bool TableReader::refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(std::max(2 * buffer_.size(), kReadBytes));
  const size_t got = file_.read(std::span(buffer_).subspan(end_));
  end_ += got;
  return got > 0;
}

void TableReader::split_record() {
  cells_.clear();
  char* at = buffer_.data() + record_begin_;
  char* const end = buffer_.data() + record_end_;
  while (true) {
    char* stop;
    if (quotes_ && at < end && *at == '"') {
      stop = split_quoted(at + 1, end);
    } else {
      stop = std::find(at, end, separator_);
      cells_.emplace_back(at, size_t(stop - at));
      if (quotes_ && cells_.back().find('"') != std::string_view::npos)
        throw Error("{}: a quote inside a cell that does not begin with one", where());
    }
    cells_.back() = without_apostrophe(cells_.back());
    if (stop == end) return;
    at = stop + 1;
  }
}

// Takes a quoted cell, undoubling its quotes in place; returns where it ends.
char* TableReader::split_quoted(char* at, char* end) {
  char* const begin = at;
  char* out = at;
  while (at < end) {
    if (*at == '"') {
      if (at + 1 == end || at[1] != '"') break;
      ++at;
    }
    *out++ = *at++;
  }
  cells_.emplace_back(begin, size_t(out - begin));
  char* const stop = at + 1;  // after the closing quote: the number of quotes is even
  if (stop < end && *stop != separator_) throw Error("{}: text behind a closing quote", where());
  return std::min(stop, end);
}

std::string_view trimmed(std::string_view cell) {
  const size_t first = cell.find_first_not_of(" \t");
  if (first == cell.npos) return {};
  return cell.substr(first, cell.find_last_not_of(" \t") - first + 1);
}

std::optional<double> parse_number(std::string_view cell, char decimal) {
  cell = trimmed(cell);
  if (decimal == '.')
    if (const auto number = plain_number(cell)) return number;
  if (is_missing_word(cell)) return std::numeric_limits<double>::quiet_NaN();
  return plain_number(in_plain_signs(cell, decimal));
}

}  // namespace lacuna
