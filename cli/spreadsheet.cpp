#include "cli/spreadsheet.h"

#include <fmt/format.h>
#include <stdlib.h>

#include "cli/python_script.h"
#include "lacuna/core/error.h"

namespace lacuna::cli {

Spreadsheets::~Spreadsheets() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

void Spreadsheets::convert(TableSource& table) {
  if (table.path.extension() != ".xlsx") {
    if (!table.sheet.empty())
      throw UsageError("{}: sheet= is for .xlsx files", table.path.string());
    return;
  }
  if (!fs::is_regular_file(table.path))
    throw Error("{}: cannot open: there is no such file", table.path.string());
  if (folder_.empty()) {
    std::string name = (fs::temp_directory_path() / "lacuna-xlsx-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw_errno(name, "cannot create");
    folder_ = name;
  }
  const fs::path text = folder_ / fmt::format("{}.csv", count_++);
  PythonScript script("xlsx_table.py", python_, {table.path.string(), text.string(), table.sheet});
  std::string line, problem;
  while (script.read_line(line)) problem = line;
  if (const int status = script.end(); status != 0)
    throw Error("{}: {}", table.path.string(),
                problem.empty() ? fmt::format("Python ended with status {}", status) : problem);
  table.contents = text;
  table.separator = ',';
}

void Spreadsheets::convert(ScreenImport& import) {
  convert(import.genes.table);
  for (auto& aliases : import.aliases) convert(aliases.table);
  for (auto& network : import.networks) convert(network.table);
  for (auto& samples : import.samples) convert(samples.table);
  for (auto& features : import.features) convert(features.source);
  if (import.metabolism) {
    convert(import.metabolism->reactions);
    convert(import.metabolism->stoichiometry);
  }
}

}  // namespace lacuna::cli
