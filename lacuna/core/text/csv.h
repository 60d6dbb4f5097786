// Cells of text in tables that people open in a spreadsheet.
//
// To a spreadsheet a cell that begins with = + - or @ (or with a tab or a line end, which it skips)
// is a formula: a gene called -omega shows up as an error, and a name can be crafted to do harm.
// Such a text is written with an apostrophe before it, which spreadsheets read as "this is text",
// and our reader takes the apostrophe off again. So that every text comes back as it was, one that
// has apostrophes before such a sign gets one more:
//
//   text      in the file
//   HO        HO
//   =1+2      '=1+2
//   '=1+2     ''=1+2
//   'tis      'tis
//   -0.5      -0.5       a plain number is not a formula
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

// The text as a cell of a CSV: with the apostrophe, and in quotes where it needs them.
std::string csv_cell(std::string_view text);

// Takes off the apostrophe that csv_cell() added, if any. The cell's quotes are off already.
std::string_view without_apostrophe(std::string_view cell);

}  // namespace lacuna
