// Samples from tables: one per row, or one per cell of a matrix.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lacuna/screen/import/gene_names.h"
#include "lacuna/screen/import/sample_rows.h"

namespace lacuna {

struct NamedColumn {
  std::string name, column;  // stored as `name`, read from the table's `column`
};

struct SampleTableOptions {
  std::string name;  // the sample's category in the column "screen"
  TableSource table;
  NameRules names;
  std::vector<std::string> removed_columns;  // an empty cell removes nothing
  std::vector<NamedColumn> labels;           // at least one
  std::vector<NamedColumn> numbers;          // an empty cell is NaN
  std::vector<NamedColumn> categories;       // an empty cell is "unknown"
  std::vector<NamedColumn> splits;           // train, val or validation, test, unused or empty

  // A column a gene, called like it: 1 where the sample removes it, else 0. "rest" alone: all
  // columns that no other setting names.
  std::vector<std::string> genotype_columns = {};
  int removed_is = 1;  // or 0: then 1 says that the gene is there

  // The table is a matrix: names above the columns and in `row_column` (empty: the first column),
  // and in each cell the label of the sample that removes both. skip: columns that are no part.
  bool is_matrix = false;
  std::string row_column = {};
  std::vector<std::string> skip = {};

  bool drop_self = false;  // a row that names one gene twice is left out; else it is removed once
};

// Appends the rows of a table; the first has source number `first_row`. Returns how many rows there
// were. A gene that one row names twice is removed once. A row with an unknown gene is left out as
// a whole (--unknown drop): without that gene it would be another sample.
uint64_t import_samples(const SampleTableOptions& options, const Names& genes,
                        MissingLabelPolicy missing_labels, uint64_t first_row,
                        ImportContext& context, SampleRows& rows);

// The same for a matrix (sample_matrix.cpp). Its cells are numbered like rows, line by line; an
// empty one is no sample. Where the matrix is symmetric (each pair is there twice, with the same
// value every time) the second of each pair is left out: it is no second measurement.
uint64_t import_matrix(const SampleTableOptions& options, const Names& genes, uint64_t first_row,
                       ImportContext& context, SampleRows& rows);

// "train", "val", "valid", "validation", "test", "unused" or ""; nothing for anything else.
std::optional<Part> part_from_cell(std::string_view cell);

}  // namespace lacuna
