// Splits from JSON index lists: {"train": [0, 5, ...], "val": [...], "test": [...]}.
//
// An index is a source number (see sample_rows.h): a row of the tables, or a record's key. Samples
// that no list names are unused.
#pragma once

#include <string>

#include "lacuna/screen/import/sample_rows.h"

namespace lacuna {

struct SplitOptions {
  std::string name;
  fs::path path;
};

// Indices of rows that the import left out are counted. Throws Error for an index that the source
// does not have, or that two parts claim, and for a file that is not of this form.
Split import_split(const SplitOptions& options, const SampleRows& rows, ImportContext& context);

}  // namespace lacuna
