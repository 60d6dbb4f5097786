// Pieces of HTML as strings: escaping, numbers, tables, figures.
//
// Text that comes from a file (names, messages, settings) goes through escape() and nothing else
// does: functions that take `html` put it in as it is, functions that take `text` escape it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::report {

// Safe between tags and inside a quoted attribute. Control characters, which HTML forbids, become
// U+FFFD; line breaks and tabs stay.
std::string escape(std::string_view text);

// "0.1234", four digits; "not defined" for what is not finite.
std::string number(double value);
// Three decimals, for correlations; "not defined" for what is not finite.
std::string correlation(double value);

// A cell of a table; `html` is put in as it is.
struct Cell {
  std::string html;
  bool is_number = false;  // set to the right
};
Cell text_cell(std::string_view text);
Cell number_cell(double value);
Cell count_cell(uint64_t count);

struct TableRow {
  std::vector<Cell> cells;
  bool is_strong = false;  // set apart from the others
};
// head: plain text. A column is set to the right where its first cell is.
std::string table(const std::vector<std::string>& head, const std::vector<TableRow>& rows);
// The same, sorted by a column where its head is clicked (numbers by the number that a cell begins
// with, the largest first). find: what stands in a box above it that leaves only the rows with what
// is typed there ("a gene"); empty: no box.
std::string sortable_table(const std::vector<std::string>& head, const std::vector<TableRow>& rows,
                           std::string_view find = {});

// A figure: a title, the drawing, and a note below it (prose; may be empty).
std::string figure(std::string_view title, std::string_view html, std::string_view note = {});
// Figures side by side, as many as fit.
std::string figures(const std::vector<std::string>& figures);
// Text for reading: escaped, and what stands between `backticks` is set as code.
std::string prose(std::string_view text);
std::string paragraph(std::string_view text);  // prose
std::string note(std::string_view text);       // prose, smaller and paler

// What can be folded away.
std::string fold(std::string_view title, std::string_view html, bool is_open);
// Text as it stands, with a button that copies it.
std::string code_block(std::string_view text);

// The colours of series are numbered; beyond kColours they repeat with other dashes.
inline constexpr int kColours = 8;
struct LegendEntry {
  std::string name;
  int colour = 0;
};
std::string legend(const std::vector<LegendEntry>& entries);

}  // namespace lacuna::report
