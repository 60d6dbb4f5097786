#include "lacuna/screen/import/features.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

template <class T>
std::vector<double> as_doubles(const Array& array) {
  const auto values = array.as<T>();
  return std::vector<double>(values.begin(), values.end());
}

std::vector<double> to_doubles(const Array& array) {
  switch (array.dtype()) {
    case DType::u8:
      return as_doubles<uint8_t>(array);
    case DType::u16:
      return as_doubles<uint16_t>(array);
    case DType::u32:
      return as_doubles<uint32_t>(array);
    case DType::u64:
      return as_doubles<uint64_t>(array);
    case DType::i32:
      return as_doubles<int32_t>(array);
    case DType::i64:
      return as_doubles<int64_t>(array);
    case DType::bf16:
      break;  // NumPy has no such type
    case DType::f32:
      return as_doubles<float>(array);
    case DType::f64:
      return as_doubles<double>(array);
  }
  LACUNA_ASSERT(false);
}

// Replaces NaN by options.missing; throws Error where that is not set.
void fill_missing(std::vector<float>& values, const FeatureOptions& options, const Names& genes,
                  ImportContext& context) {
  const auto is_missing = [](float value) { return std::isnan(value); };
  const std::string source = options.source.path.string();
  Tally& missing = context.report.tally(source, "genes with a missing feature");
  const uint64_t gene_count = genes.size(), width = values.size() / gene_count;
  for (uint32_t gene = 0; gene < gene_count; ++gene) {
    float* const row = values.data() + gene * width;
    if (std::none_of(row, row + width, is_missing)) continue;
    if (!options.missing)
      throw Error("{}: gene '{}' has no feature '{}'; say missing=NUMBER (or nan) for such genes",
                  source, genes[gene], options.name);
    missing.add_example([&] { return genes[gene]; });
    std::replace_if(row, row + width, is_missing, float(*options.missing));
  }
}

Array read_array(const FeatureOptions& options, const Names& genes, ImportContext& context) {
  const Array array = read_npy(options.source.path);
  const std::string source = options.source.path.string();
  const Shape& shape = array.shape();
  const uint64_t gene_count = genes.size();
  if (shape.empty() || shape.size() > 2 || shape[0] != gene_count)
    throw Error("{}: {} rows and {} dimensions; features are [{} genes] or [{} genes, width]",
                source, shape.empty() ? 0 : shape[0], shape.size(), gene_count, gene_count);
  const uint64_t width = shape.size() == 2 ? shape[1] : 1;
  if (width == 0) throw Error("{}: rows of no numbers; features need one a gene at least", source);
  const std::vector<double> numbers = to_doubles(array);
  std::vector<float> values(numbers.size());  // [genes, width]
  Tally& non_numbers = context.report.tally(source, "numbers too large for f32");
  for (uint64_t i = 0; i < numbers.size(); ++i) {
    const bool fits = !(std::abs(numbers[i]) > double(std::numeric_limits<float>::max()));
    values[i] = fits ? float(numbers[i]) : NAN;
    if (fits) continue;
    const auto where = [&] { return fmt::format("row {}: {}", i / width, numbers[i]); };
    if (context.non_numbers == NonNumberPolicy::error)
      throw Error("{}: {} is too large for f32; --non-numbers missing reads it as missing", source,
                  where());
    non_numbers.add_example(where);
  }
  fill_missing(values, options, genes, context);
  return Array::from(std::move(values), {gene_count, width});
}

Array read_table(const FeatureOptions& options, const Names& genes, ImportContext& context) {
  TableReader table(options.source);
  const std::string source = options.source.path.string();
  const size_t gene_column = table.column(options.gene_column);
  std::vector<std::string> names = options.columns;
  if (names.empty()) {
    names = table.header();
    names.erase(names.begin() + ptrdiff_t(gene_column));
  }
  std::vector<size_t> columns;
  for (const std::string& name : names) columns.push_back(table.column(name));
  if (columns.empty())
    throw Error("{}: no column of numbers beside '{}'", source, options.gene_column);

  Tally& rows = context.report.tally(source, "rows");
  Tally& unknown = context.report.tally(source, "rows left out: an unknown gene");
  Tally& non_numbers = context.report.tally(source, "cells that are not numbers");
  GeneReader reader(genes, options.names, context, source);
  const uint64_t gene_count = genes.size(), width = columns.size();
  std::vector<float> values(gene_count * width, NAN);  // [genes, width]
  std::vector<uint64_t> line_of(gene_count, 0);
  std::vector<uint32_t> found;
  while (table.next()) {
    rows.add();
    found.clear();
    if (!reader.read(table.cells()[gene_column], found)) {
      reader.refuse(table.where());
      unknown.add();
      continue;
    }
    if (found.empty()) continue;  // ignored
    if (found.size() > 1) throw Error("{}: a row of features for several genes", table.where());
    const uint32_t gene = found[0];
    if (line_of[gene] != 0)
      throw Error("{}: features of gene '{}' are already on line {}; take one out", table.where(),
                  genes[gene], line_of[gene]);
    line_of[gene] = table.line();
    for (size_t c = 0; c < width; ++c)
      values[gene * width + c] =
          float(number_cell(table, columns[c], context.non_numbers, non_numbers));
  }

  context.check_left_out(source, rows.count, unknown.count, reader.policy());
  fill_missing(values, options, genes, context);
  return Array::from(std::move(values), {gene_count, width});
}

}  // namespace

void import_features(const FeatureOptions& options, const Names& genes, ImportContext& context,
                     HeteroGraph& graph) {
  const bool is_npy = options.source.path.extension() == ".npy";
  graph.add_feature(
      "gene", options.name,
      is_npy ? read_array(options, genes, context) : read_table(options, genes, context));
  context.add_source(options.source.path);
}

}  // namespace lacuna
