#include "lacuna/screen/import/sample_table.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// A column of the table and where it goes.
struct Wire {
  size_t cell, place;
};

template <class PlaceOf>
std::vector<Wire> wires(const std::vector<NamedColumn>& columns, const TableReader& table,
                        PlaceOf place_of) {
  std::vector<Wire> result;
  for (const NamedColumn& column : columns)
    result.push_back({table.column(column.column), place_of(column.name)});
  return result;
}

// Keeps the first of equal genes; true when there were any.
bool remove_repeats(std::vector<uint32_t>& genes) {
  const size_t before = genes.size();
  for (auto gene = genes.begin(); gene != genes.end(); ++gene)
    genes.erase(std::remove(gene + 1, genes.end(), *gene), genes.end());
  return genes.size() < before;
}

}  // namespace

std::optional<Part> part_from_cell(std::string_view cell) {
  if (cell == "train") return Part::train;
  if (cell == "val" || cell == "valid" || cell == "validation") return Part::validation;
  if (cell == "test") return Part::test;
  if (cell.empty() || cell == "unused") return Part::unused;
  return std::nullopt;
}

uint64_t import_samples(const SampleTableOptions& options, const GeneList& genes,
                        MissingLabelPolicy missing_labels, uint64_t first_row,
                        ImportContext& context, SampleRows& rows) {
  if (options.removed_columns.empty() || options.labels.empty())
    throw UsageError(
        "samples '{}': name the columns of removed genes (removed=COLUMN+COLUMN) and "
        "of the label (label=COLUMN)",
        options.name);
  TableReader table(options.table);
  const std::string source = options.table.path.string();
  const auto tally = [&](const char* what) -> Tally& { return context.report.tally(source, what); };
  Tally& row_count = tally("rows");
  GeneReader reader(genes, options.names, context, source);
  Tally& unknown = tally("rows left out: an unknown gene");
  Tally& twice = tally("rows that name a gene twice (removed once)");
  Tally& nothing = tally("rows that remove nothing");
  Tally& unlabelled = tally("rows without a label");
  Tally& non_numbers = tally("cells that are not numbers");
  Tally& added = tally("samples");

  std::vector<size_t> removed_columns;
  for (const std::string& name : options.removed_columns)
    removed_columns.push_back(table.column(name));
  const auto labels = wires(options.labels, table, [&](auto& n) { return rows.label(n); });
  const auto numbers = wires(options.numbers, table, [&](auto& n) { return rows.number(n); });
  const auto categories =
      wires(options.categories, table, [&](auto& n) { return rows.category(n); });
  const auto splits = wires(options.splits, table, [&](auto& n) { return rows.split(n); });
  const size_t screen = rows.category("screen");
  std::vector<uint32_t> removed;
  std::vector<double> values(labels.size());
  uint64_t next_row = first_row;

  context.progress.begin("reading " + source, table.bytes(), "bytes");
  while (table.next()) {
    const uint64_t row = next_row++;
    row_count.add();
    if (row % 4096 == 0) context.progress.advance(table.bytes_read());
    removed.clear();
    bool all_known = true;
    for (const size_t column : removed_columns)
      all_known = all_known && reader.read(table.cells()[column], removed);
    if (!all_known) {
      reader.refuse(table.where());
      unknown.add();
      rows.leave_out(row);
      continue;
    }
    const auto number_of = [&](const Wire& wire) {
      return number_cell(table, wire.cell, context.non_numbers, non_numbers);
    };
    std::transform(labels.begin(), labels.end(), values.begin(), number_of);
    if (std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) {
      if (missing_labels == MissingLabelPolicy::error)
        throw Error(
            "{}: no label in column '{}'; --missing-labels keep stores it as not measured, "
            "drop leaves the row out",
            table.where(), options.labels[0].column);
      unlabelled.add_example([&] { return table.where(); });
      if (missing_labels == MissingLabelPolicy::drop) {
        rows.leave_out(row);
        continue;
      }
    }
    if (remove_repeats(removed)) twice.add_example([&] { return table.where(); });
    if (removed.empty()) nothing.add_example([&] { return table.where(); });

    added.add();
    rows.add(row, removed);
    rows.set_category(screen, options.name);
    for (size_t l = 0; l < labels.size(); ++l) rows.set_label(labels[l].place, values[l]);
    for (const Wire& wire : numbers) rows.set_number(wire.place, number_of(wire));
    for (const Wire& wire : categories) rows.set_category(wire.place, text_cell(table, wire.cell));
    for (const Wire& wire : splits) {
      const auto part = part_from_cell(trimmed(table.cells()[wire.cell]));
      if (!part)
        throw Error("{}: '{}' is no part of a split; parts are train, val, test and unused",
                    table.where(), table.cells()[wire.cell]);
      rows.set_split(wire.place, *part);
    }
  }
  context.progress.end();
  context.add_source(options.table.path);
  return next_row - first_row;
}

}  // namespace lacuna
