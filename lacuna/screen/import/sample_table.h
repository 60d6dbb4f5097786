// Samples from tables, one per row.
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
};

// Appends the rows of a table; the first has source number `first_row`. Returns how many rows there
// were. A gene that one row names twice is removed once. A row with an unknown gene is left out as
// a whole (--unknown drop): without that gene it would be another sample.
uint64_t import_samples(const SampleTableOptions& options, const GeneList& genes,
                        MissingLabelPolicy missing_labels, uint64_t first_row,
                        ImportContext& context, SampleRows& rows);

// "train", "val", "valid", "validation", "test", "unused" or ""; nothing for anything else.
std::optional<Part> part_from_cell(std::string_view cell);

}  // namespace lacuna
