// Samples from a matrix of scores, names of genes on both sides (an E-MAP).
#include <algorithm>
#include <cmath>
#include <map>

#include "lacuna/core/error.h"
#include "lacuna/screen/import/sample_table.h"

namespace lacuna {
namespace {

// A line or a column of the matrix.
struct Side {
  std::string name, where;
  std::vector<uint32_t> genes = {};
  bool is_known = true;
};

struct Matrix {
  std::vector<Side> lines, columns;
  std::vector<double> values;  // [lines, columns] NaN: not measured
  double at(size_t line, size_t column) const { return values[line * columns.size() + column]; }
};

Side read_side(std::string_view name, std::string where, GeneReader& reader) {
  Side side = {std::string(trimmed(name)), std::move(where)};
  side.is_known = reader.read(side.name, side.genes);
  std::ranges::sort(side.genes);
  return side;
}

Matrix read_matrix(const SampleTableOptions& options, GeneReader& reader, ImportContext& context,
                   Tally& non_numbers) {
  TableSource source = options.table;
  source.row_names = true;
  TableReader table(source);
  const std::string path = options.table.path.string();
  Matrix matrix;
  std::vector<size_t> cells;  // the matrix's columns in the table
  size_t name_cell = 0;
  context.progress.begin("reading " + path, table.bytes(), "bytes");
  while (table.next()) {
    if (matrix.lines.empty()) {  // only now the header is whole, see TableSource::row_names
      name_cell = options.row_column.empty() ? 0 : table.column(options.row_column);
      std::vector<size_t> skipped = {name_cell};
      for (const std::string& name : options.skip) skipped.push_back(table.column(name));
      for (size_t c = 0; c < table.header().size(); ++c)
        if (std::ranges::find(skipped, c) == skipped.end()) cells.push_back(c);
      for (const size_t cell : cells)
        matrix.columns.push_back(read_side(table.header()[cell], path + ":1", reader));
    }
    matrix.lines.push_back(read_side(table.cells()[name_cell], table.where(), reader));
    for (const size_t cell : cells)
      matrix.values.push_back(number_cell(table, cell, context.non_numbers, non_numbers));
    context.progress.advance(table.bytes_read());
  }
  context.progress.end();
  if (matrix.values.empty())
    throw Error("{}: no matrix; its first line and its first column name genes", path);
  return matrix;
}

// Where the cell of the same two sides lies whose line is this column; null where there is none.
class Mirror {
 public:
  explicit Mirror(const Matrix& matrix) : matrix_(matrix) {
    for (size_t i = 0; i < matrix.lines.size(); ++i) put(lines_, matrix.lines[i], i);
    for (size_t j = 0; j < matrix.columns.size(); ++j) put(columns_, matrix.columns[j], j);
  }

  // The place of the mirrored cell, where that is measured and another one.
  std::optional<size_t> of(size_t line, size_t column) const {
    const auto mirrored_line = lines_.find(matrix_.columns[column].genes);
    const auto mirrored_column = columns_.find(matrix_.lines[line].genes);
    if (mirrored_line == lines_.end() || mirrored_column == columns_.end()) return {};
    if (mirrored_line->second == kTwice || mirrored_column->second == kTwice) return {};
    const size_t place = mirrored_line->second * matrix_.columns.size() + mirrored_column->second;
    if (place == line * matrix_.columns.size() + column || std::isnan(matrix_.values[place]))
      return {};
    return place;
  }

 private:
  static constexpr size_t kTwice = SIZE_MAX;
  using Places = std::map<std::vector<uint32_t>, size_t>;
  static void put(Places& places, const Side& side, size_t place) {
    if (!side.is_known || side.genes.empty()) return;
    if (const auto [entry, is_new] = places.try_emplace(side.genes, place); !is_new)
      entry->second = kTwice;
  }

  const Matrix& matrix_;
  Places lines_, columns_;
};

// Whether pairs are there twice, and with the same value every time.
bool is_symmetric(const Matrix& matrix, const Mirror& mirror) {
  bool has_pairs = false;
  for (size_t i = 0; i < matrix.lines.size(); ++i)
    for (size_t j = 0; j < matrix.columns.size(); ++j) {
      if (std::isnan(matrix.at(i, j))) continue;
      const auto other = mirror.of(i, j);
      if (!other) continue;
      if (matrix.values[*other] != matrix.at(i, j)) return false;
      has_pairs = true;
    }
  return has_pairs;
}

void check_matrix_options(const SampleTableOptions& options) {
  const bool has_columns = !options.removed_columns.empty() || !options.genotype_columns.empty() ||
                           !options.numbers.empty() || !options.categories.empty() ||
                           !options.splits.empty();
  if (options.labels.size() != 1 || has_columns)
    throw UsageError(
        "samples '{}': a matrix has one label, named by label=NAME, and no other columns",
        options.name);
  if (!options.table.header)
    throw UsageError("samples '{}': a matrix has names in its first line, so no header=no",
                     options.name);
}

}  // namespace

uint64_t import_matrix(const SampleTableOptions& options, const Names& genes, uint64_t first_row,
                       ImportContext& context, SampleRows& rows) {
  check_matrix_options(options);
  const std::string source = options.table.path.string();
  const auto tally = [&](const char* what) -> Tally& { return context.report.tally(source, what); };
  Tally& measured = tally("cells with a score");
  Tally& empty = tally("cells without a score (no samples)");
  GeneReader reader(genes, options.names, context, source);
  Tally& unknown = tally("cells left out: an unknown gene");
  Tally& mirrored = tally("cells left out: the matrix is symmetric, and has each pair twice");
  Tally& twice = tally(options.drop_self ? "cells left out: a gene is named twice (self=drop)"
                                         : "cells that name a gene twice (removed once)");
  Tally& nothing = tally("cells that remove nothing");
  Tally& non_numbers = tally("cells that are not numbers");
  Tally& added = tally("samples");

  const Matrix matrix = read_matrix(options, reader, context, non_numbers);
  const Mirror mirror(matrix);
  const bool symmetric = is_symmetric(matrix, mirror);
  const size_t label = rows.label(options.labels[0].name), screen = rows.category("screen");
  std::vector<uint32_t> removed;
  const auto refuse = [&](const Side& side) {
    removed.clear();
    reader.read(side.name, removed);
    reader.refuse(side.where);
    unknown.add();
  };
  for (size_t i = 0; i < matrix.lines.size(); ++i)
    for (size_t j = 0; j < matrix.columns.size(); ++j) {
      const Side &line = matrix.lines[i], &column = matrix.columns[j];
      const uint64_t place = i * matrix.columns.size() + j;
      const auto leave_out = [&] { rows.leave_out(first_row + place); };
      if (std::isnan(matrix.at(i, j))) {
        empty.add();
        leave_out();
        continue;
      }
      measured.add();
      const auto where = [&] { return fmt::format("{}: column '{}'", line.where, column.name); };
      if (!line.is_known || !column.is_known) {
        refuse(line.is_known ? column : line);
        leave_out();
        continue;
      }
      const auto other = symmetric ? mirror.of(i, j) : std::nullopt;
      if (other && *other < place) {
        mirrored.add();
        leave_out();
        continue;
      }
      removed = line.genes;
      for (const uint32_t gene : column.genes)
        if (std::ranges::find(removed, gene) == removed.end()) removed.push_back(gene);
      if (removed.size() < line.genes.size() + column.genes.size()) {
        twice.add_example(where);
        if (options.drop_self) {
          leave_out();
          continue;
        }
      }
      if (removed.empty()) nothing.add_example(where);
      added.add();
      rows.add(first_row + place, removed);
      rows.set_category(screen, options.name);
      rows.set_label(label, matrix.at(i, j));
    }
  context.check_left_out(source, measured.count, unknown.count, reader.policy());
  context.add_source(options.table.path);
  return matrix.values.size();
}

}  // namespace lacuna
