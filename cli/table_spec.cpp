#include "cli/table_spec.h"

#include <fmt/ranges.h>

#include <cmath>

#include "lacuna/core/error.h"

namespace lacuna::cli {
namespace {

// Pieces between separators that no backslash precedes; backslashes stay.
std::vector<std::string> split_unescaped(std::string_view text, char separator) {
  std::vector<std::string> pieces(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      pieces.back() += text[i++];
      pieces.back() += text[i];
    } else if (text[i] == separator) {
      pieces.emplace_back();
    } else {
      pieces.back() += text[i];
    }
  }
  return pieces;
}

// Takes the backslash from before a comma, a plus and a backslash; others are the value's own (\d).
std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size() &&
                         (text[i + 1] == ',' || text[i + 1] == '+' || text[i + 1] == '\\');
    if (escapes) ++i;
    plain += text[i];
  }
  return plain;
}

std::string stem_of(const fs::path& path) {
  const fs::path name = path.filename().empty() ? path.parent_path().filename() : path.filename();
  const std::string text = name.string();
  return text.substr(0, text.find('.'));
}

}  // namespace

TableSpec::TableSpec(std::string option, std::string_view text, Naming naming)
    : option_(std::move(option)), text_(text) {
  const std::vector<std::string> pieces = split_unescaped(text, ',');
  const size_t equals = naming == Naming::named ? pieces[0].find('=') : std::string::npos;
  if (equals != std::string::npos) name_ = unescape(pieces[0].substr(0, equals));
  path_ = unescape(equals == std::string::npos ? pieces[0] : pieces[0].substr(equals + 1));
  if (path_.empty())
    throw UsageError("{} '{}': no path; see `lacuna import --help`", option_, text);
  for (size_t i = 1; i < pieces.size(); ++i) {
    const size_t at = pieces[i].find('=');
    const bool has_value = at != std::string::npos;
    settings_.push_back(
        {pieces[i].substr(0, at), has_value ? pieces[i].substr(at + 1) : "", has_value, false});
    // decimal=, is cut at its comma: then nothing stands behind it.
    if (pieces[i] == "decimal=" && i + 1 < pieces.size() && pieces[i + 1].empty()) {
      settings_.back().value = ",";
      ++i;
    }
  }
}

void TableSpec::refuse(std::string_view key, std::string_view why) const {
  throw UsageError("{} '{}': {} {}", option_, text_, key, why);
}

const TableSpec::Setting* TableSpec::find(std::string_view key) {
  asked_.emplace_back(key);
  Setting* found = nullptr;
  for (Setting& setting : settings_) {
    if (setting.key != key) continue;
    if (found != nullptr) refuse(key, "is given twice");
    found = &setting;
    setting.taken = true;
  }
  return found;
}

std::string TableSpec::take_name() { return name_.empty() ? stem_of(path_) : name_; }

std::string TableSpec::required_name(const char* example) const {
  if (name_.empty())
    throw UsageError("{} '{}': give it a name, for example {}", option_, text_, example);
  return name_;
}

TableSource TableSpec::take_table() {
  TableSource table = {path_};
  const std::string separator = take("separator");
  if (separator == "tab") table.separator = '\t';
  if (separator == "comma") table.separator = ',';
  if (separator == "semicolon") table.separator = ';';
  if (separator == "space") table.separator = ' ';
  if (!separator.empty() && !table.separator)
    refuse("separator", "is tab, comma, semicolon or space");
  const std::string header = take("header", "yes");
  if (header != "yes" && header != "no") refuse("header", "is yes or no");
  table.header = header == "yes";
  const std::string decimal = take("decimal", ".");
  if (decimal != "." && decimal != ",") refuse("decimal", "is . or ,");
  table.decimal = decimal[0];
  table.sheet = take("sheet");
  return table;
}

NameRules TableSpec::take_names() {
  NameRules rules = {take("gene-separator"), take("pattern"), take_list("ignore")};
  const std::string letters = take("case", "fold");
  if (letters != "fold" && letters != "exact") refuse("case", "is fold or exact");
  rules.letters = letters == "fold" ? Names::Case::fold : Names::Case::exact;
  const std::string unknown = take("unknown");
  for (const auto policy : {UnknownPolicy::error, UnknownPolicy::drop, UnknownPolicy::drop_most})
    if (unknown == name(policy)) rules.unknown = policy;
  if (!unknown.empty() && !rules.unknown) refuse("unknown", "is error, drop or drop-most");
  return rules;
}

bool TableSpec::take_flag(std::string_view key) {
  const Setting* setting = find(key);
  if (setting == nullptr) return false;
  if (!setting->has_value || setting->value == "yes") return true;
  if (setting->value == "no") return false;
  refuse(key, "is yes or no");
}

std::string TableSpec::take(std::string_view key, std::string otherwise) {
  const Setting* setting = find(key);
  if (setting == nullptr) return otherwise;
  if (setting->value.empty()) refuse(key, "has no value");
  return unescape(setting->value);
}

std::optional<double> TableSpec::take_number(std::string_view key) {
  const std::string text = take(key);
  if (text.empty()) return std::nullopt;
  const auto number = parse_number(text);
  if (!number || std::isnan(*number)) refuse(key, "is not a number");
  return number;
}

std::vector<std::string> TableSpec::take_list(std::string_view key) {
  const Setting* setting = find(key);
  if (setting == nullptr) return {};
  std::vector<std::string> list;
  for (const std::string& piece : split_unescaped(setting->value, '+')) {
    if (piece.empty()) refuse(key, "has an empty entry");
    list.push_back(unescape(piece));
  }
  return list;
}

std::vector<NamedColumn> TableSpec::take_columns(std::string_view key) {
  std::vector<NamedColumn> columns;
  for (const std::string& entry : take_list(key)) {
    const size_t colon = entry.find(':');
    if (colon == std::string::npos)
      columns.push_back({entry, entry});
    else
      columns.push_back({entry.substr(0, colon), entry.substr(colon + 1)});
  }
  return columns;
}

void TableSpec::finish() const {
  for (const Setting& setting : settings_)
    if (!setting.taken)
      throw UsageError("{} '{}': there is no setting '{}'; settings are {}", option_, text_,
                       setting.key, fmt::join(asked_, ", "));
}

GeneTableOptions gene_table(TableSpec spec, std::vector<std::string> alias_columns) {
  GeneTableOptions options;
  options.table = spec.take_table();
  options.gene_column = spec.take("gene", "gene");
  options.alias_columns = spec.take_list("alias");
  options.alias_separator = spec.take("alias-separator");
  if (options.alias_columns.empty()) options.alias_columns = std::move(alias_columns);
  spec.finish();
  return options;
}

}  // namespace lacuna::cli
