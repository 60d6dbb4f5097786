// The argument that names a table and how to read it, in one word:
//
//   NAME=PATH,key=value,key=value,flag      or without NAME=, where nothing is named
//
// Lists inside a value are joined by '+'. A comma, a plus or a backslash that belongs to a value is
// written with a backslash before it; decimal=, needs none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lacuna/screen/import/import_screen.h"

namespace lacuna::cli {

class TableSpec {
 public:
  // `option` ("--network") is what errors name. Throws UsageError when there is no path.
  enum class Naming { named, nameless };
  TableSpec(std::string option, std::string_view text, Naming naming = Naming::nameless);

  // Each take_*() may be called once per key; finish() then refuses keys that were not taken.
  std::string take_name();                               // NAME, or the file's stem
  std::string required_name(const char* example) const;  // NAME; throws UsageError without one
  TableSource take_table();              // PATH and keys separator, header, decimal, sheet
  NameRules take_names();                // keys gene-separator, pattern, ignore, case, unknown
  bool take_flag(std::string_view key);  // "directed"
  std::string take(std::string_view key, std::string otherwise = "");
  std::optional<double> take_number(std::string_view key);
  std::vector<std::string> take_list(std::string_view key);
  std::vector<NamedColumn> take_columns(
      std::string_view key);  // COLUMN or NAME:COLUMN, joined by '+'
  const std::string& path() const { return path_; }
  const std::string& given_name() const { return name_; }  // empty: none
  void finish() const;

  [[noreturn]] void refuse(std::string_view key, std::string_view why) const;

 private:
  struct Setting {
    std::string key, value;  // value still with its backslashes
    bool has_value, taken;
  };
  const Setting* find(std::string_view key);

  std::string option_, text_, name_, path_;
  std::vector<Setting> settings_;
  std::vector<std::string> asked_;  // keys that exist, for the message
};

// What --genes, --aliases and `import names` take. alias_columns: where the spec names none.
GeneTableOptions gene_table(TableSpec spec, std::vector<std::string> alias_columns);

}  // namespace lacuna::cli
