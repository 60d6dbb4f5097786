#include "lacuna/screen/import/report.h"

#include <simdjson.h>

#include <cfloat>
#include <cmath>
#include <limits>

#include "lacuna/core/error.h"

namespace lacuna {

Tally& ImportReport::tally(std::string_view source, std::string_view what) {
  const auto [entry, is_new] =
      places_.try_emplace({std::string(source), std::string(what)}, tallies_.size());
  if (is_new) tallies_.push_back({std::string(source), std::string(what), 0, {}});
  return tallies_[entry->second];
}

uint64_t ImportReport::count(std::string_view source, std::string_view what) const {
  for (const Tally& tally : tallies_)
    if (tally.source == source && tally.what == what) return tally.count;
  return 0;
}

Json ImportReport::to_json() const {
  Json json = Json::object();
  for (const Tally& tally : tallies_) {
    Json& entry = json[tally.source][tally.what];
    if (tally.examples.empty())
      entry = tally.count;
    else
      entry = {{"count", tally.count}, {"examples", tally.examples}};
  }
  return json;
}

void ImportContext::add_source(const fs::path& path) {
  const MappedFile file(path);
  sources.push_back({{"path", path.string()},
                     {"bytes", file.bytes().size()},
                     {"xxh3", hex(hash64(file.bytes()))}});
}

void ImportContext::check_left_out(const std::string& source, uint64_t rows, uint64_t left_out,
                                   UnknownPolicy policy) {
  if (policy != UnknownPolicy::drop || left_out * 2 <= rows) return;
  std::string example;
  for (const UnknownName& unknown : report.unknown_names)
    if (unknown.source == source && example.empty())
      example = fmt::format(", such as '{}'{}", unknown.name,
                            unknown.name == unknown.cell ? "" : " from '" + unknown.cell + "'");
  report.problems.push_back(fmt::format(
      "{}: {} of its {} rows name a gene that is not known{}, and would be left out; mend the "
      "names (pattern=, gene-separator=, ignore=, --aliases), or say unknown=drop-most beside it",
      source, left_out, rows, example));
}

double number_cell(const TableReader& table, size_t column, NonNumberPolicy policy, Tally& tally) {
  const std::string_view cell = table.cells()[column];
  const auto number = parse_number(cell, table.decimal());
  if (number && !(std::fabs(*number) > double(FLT_MAX))) return *number;
  const bool is_with_comma = parse_number(cell, ',').has_value();
  if (policy == NonNumberPolicy::error)
    throw Error(
        "{}: '{}' in column '{}' is not a number; {}--non-numbers missing reads it as missing",
        table.where(), cell, table.header()[column],
        is_with_comma ? "decimal=, beside the table reads decimal commas; " : "");
  tally.add_example([&] { return fmt::format("{}: '{}'", table.where(), cell); });
  return std::numeric_limits<double>::quiet_NaN();
}

std::string_view text_cell(const TableReader& table, size_t column) {
  const std::string_view cell = trimmed(table.cells()[column]);
  if (!simdjson::validate_utf8(cell.data(), cell.size()))
    throw Error("{}: the text in column '{}' is not UTF-8; save the table as UTF-8", table.where(),
                table.header()[column]);
  return cell;
}

}  // namespace lacuna
