#include "lacuna/screen/import/sample_table.h"

#include <algorithm>
#include <cmath>
#include <set>

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

// One 0/1 column of a genotype table.
struct GenotypeColumn {
  size_t cell;
  std::string gene;  // as the header names it
};

std::vector<GenotypeColumn> genotype_columns(const SampleTableOptions& options,
                                             const TableReader& table) {
  std::vector<GenotypeColumn> columns;
  const bool is_rest = options.genotype_columns == std::vector<std::string>{"rest"};
  if (!is_rest) {
    for (const std::string& name : options.genotype_columns)
      columns.push_back({table.column(name), name});
    return columns;
  }
  std::set<size_t> taken;
  for (const std::string& name : options.removed_columns) taken.insert(table.column(name));
  for (const auto* list : {&options.labels, &options.numbers, &options.categories, &options.splits})
    for (const NamedColumn& column : *list) taken.insert(table.column(column.column));
  for (size_t c = 0; c < table.header().size(); ++c)
    if (!taken.contains(c)) columns.push_back({c, table.header()[c]});
  return columns;
}

bool is_removed(const TableReader& table, const GenotypeColumn& column, int removed_is) {
  const auto number = parse_number(table.cells()[column.cell], table.decimal());
  if (!number || (*number != 0 && *number != 1))
    throw Error(
        "{}: '{}' in genotype column '{}' is neither 0 nor 1; name the genotype's columns "
        "(genotype=GENE+GENE), or say what else this one is (numbers=, categories=)",
        table.where(), table.cells()[column.cell], column.gene);
  return *number == removed_is;
}

void check_columns(const SampleTableOptions& options) {
  const bool has_genes = !options.removed_columns.empty() || !options.genotype_columns.empty();
  if (!has_genes || options.labels.empty())
    throw UsageError(
        "samples '{}': name the columns of removed genes (removed=COLUMN+COLUMN, or genotype= for "
        "0/1 columns) and of the label (label=COLUMN)",
        options.name);
}

}  // namespace

std::optional<Part> part_from_cell(std::string_view cell) {
  if (cell == "train") return Part::train;
  if (cell == "val" || cell == "valid" || cell == "validation") return Part::validation;
  if (cell == "test") return Part::test;
  if (cell.empty() || cell == "unused") return Part::unused;
  return std::nullopt;
}

uint64_t import_samples(const SampleTableOptions& options, const Names& genes,
                        MissingLabelPolicy missing_labels, uint64_t first_row,
                        ImportContext& context, SampleRows& rows) {
  if (options.is_matrix) return import_matrix(options, genes, first_row, context, rows);
  check_columns(options);
  TableReader table(options.table);
  const std::string source = options.table.path.string();
  const auto tally = [&](const char* what) -> Tally& { return context.report.tally(source, what); };
  Tally& row_count = tally("rows");
  GeneReader reader(genes, options.names, context, source);
  Tally& unknown = tally("rows left out: an unknown gene");
  Tally& twice = tally(options.drop_self ? "rows left out: a gene is named twice (self=drop)"
                                         : "rows that name a gene twice (removed once)");
  Tally& nothing = tally("rows that remove nothing");
  Tally& unlabelled = tally("rows without a label");
  Tally& non_numbers = tally("cells that are not numbers");
  Tally& added = tally("samples");

  std::vector<size_t> removed_columns;
  for (const std::string& name : options.removed_columns)
    removed_columns.push_back(table.column(name));
  const auto genotype = genotype_columns(options, table);
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
    for (const GenotypeColumn& column : genotype)
      if (is_removed(table, column, options.removed_is))
        all_known = all_known && reader.read(column.gene, removed);
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
    if (remove_repeats(removed)) {
      twice.add_example([&] { return table.where(); });
      if (options.drop_self) {
        rows.leave_out(row);
        continue;
      }
    }
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
  context.check_left_out(source, row_count.count, unknown.count, reader.policy());
  context.add_source(options.table.path);
  return next_row - first_row;
}

}  // namespace lacuna
