// Cells of text in tables that people open in a spreadsheet.
//
// To a spreadsheet a cell that begins with = + - or @ (or with a tab or a line end, which it passes
// over) is a formula, whatever it was to us: a gene called -omega is an error there, and a name may
// be made to do harm. Such a text is written with an apostrophe before it, which spreadsheets take
// for "this is text", and reading takes the apostrophe off again. So that every text comes back as
// it was, one that has apostrophes before such a sign gets one more:
//
//   text      in the file
//   HO        HO
//   =1+2      '=1+2
//   '=1+2     ''=1+2
//   'tis      'tis
//   -0.5      -0.5       a number as a whole is no formula
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

// The text as a cell of a CSV: with the apostrophe, and in quotes where it needs them.
std::string csv_cell(std::string_view text);

// The text of a cell, which is without its quotes already: without the apostrophe, where it has one
// for the reason above.
std::string_view without_apostrophe(std::string_view cell);

}  // namespace lacuna
