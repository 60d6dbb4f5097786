// Given features of the genes: an array whose rows are in gene order, or a table by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lacuna/graph/hetero_graph.h"
#include "lacuna/screen/import/gene_names.h"

namespace lacuna {

struct FeatureOptions {
  std::string name;
  TableSource source;  // a .npy of [genes] or [genes, d] numbers, or a table
  // For genes without a row, missing cells and NaN; may be NaN. Not set: an Error that names the
  // gene.
  std::optional<double> missing;
  // The rest is for tables.
  NameRules names;
  std::string gene_column = "gene";
  std::vector<std::string> columns;  // empty: all but the gene column, in table order
};

// Stored as f32 [genes, d]. Throws Error for a wrong number of rows, rows without numbers, a gene
// with two rows, a row for several genes, and a number too large for f32, unless the context reads
// such numbers as missing.
void import_features(const FeatureOptions& options, const Names& genes, ImportContext& context,
                     HeteroGraph& graph);

}  // namespace lacuna
