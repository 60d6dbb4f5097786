// Tables in Excel workbooks (.xlsx): Python's openpyxl turns a sheet into a CSV, which is read in
// its place and gone afterwards.
#pragma once

#include <string>

#include "lacuna/core/system/file.h"
#include "lacuna/screen/import/import_screen.h"

namespace lacuna::cli {

// The CSVs of one import; removed with it.
class Spreadsheets {
 public:
  // python: which to start; empty: LACUNA_PYTHON, else python3.
  explicit Spreadsheets(std::string python) : python_(std::move(python)) {}
  ~Spreadsheets();
  Spreadsheets(const Spreadsheets&) = delete;
  Spreadsheets& operator=(const Spreadsheets&) = delete;

  // Turns every .xlsx among the tables into a CSV. Throws Error in one line where Python, openpyxl
  // or the sheet is not there.
  void convert(ScreenImport& import);
  void convert(TableSource& table);

 private:
  std::string python_;
  fs::path folder_;  // empty until there is one
  int count_ = 0;
};

}  // namespace lacuna::cli
