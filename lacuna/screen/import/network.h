// A network between genes, from a table with one row per edge.
//
// Edges are stored in the order of the table. In an undirected network (the default) each is
// followed by its reverse, and "a b" and "b a" are the same edge. Last come the self loops, one per
// gene in gene order, where they are asked for (the default: published graphs of this field have
// them); a self loop of the table itself then gives its weight to that gene's loop and is not
// stored twice.
//
// Rows go through these steps, each counted: unknown genes, ignored genes, missing weights, the
// threshold, repeats.
#pragma once

#include <optional>
#include <string>

#include "lacuna/graph/hetero_graph.h"
#include "lacuna/screen/import/gene_names.h"

namespace lacuna {

// For an edge that the table lists again: the first is kept, all are kept, or one is kept with the
// largest or the mean weight.
enum class RepeatedEdges { first, keep, max, mean };

struct NetworkOptions {
  std::string name;  // edge type gene.NAME.gene
  TableSource table;
  NameRules names;
  std::string source_column = "source", target_column = "target";
  std::string weight_column;       // stored as the edge value "weight"; empty: no weights
  std::optional<double> min, max;  // rows with a weight outside are left out; need a weight column
  bool directed = false;
  bool self_loops = true;
  double loop_weight = 1;  // of self loops that are added
  RepeatedEdges repeated = RepeatedEdges::first;
  // Of rows without a weight: an Error when not set, left out when NaN, else this weight.
  std::optional<double> missing_weight;
};

void import_network(const NetworkOptions& options, const Names& genes, ImportContext& context,
                    HeteroGraph& graph);

}  // namespace lacuna
