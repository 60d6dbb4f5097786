#include "lacuna/screen/import/network.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr uint64_t kMostEdgesPerRow = 1'000'000;

struct WeightedEdge {
  uint32_t source, target;
  double weight;
  uint32_t rows;  // how many rows of the table it stands for
};

// The edges of one network, without their reverses and added self loops.
class EdgeList {
 public:
  EdgeList(const NetworkOptions& options, Tally& repeated, Tally& other_weight)
      : options_(options), repeated_(repeated), other_weight_(other_weight) {}

  void add(uint32_t source, uint32_t target, double weight, const TableReader& table) {
    const auto [low, high] = std::minmax(source, target);
    const uint64_t key =
        options_.directed ? uint64_t(source) << 32 | target : uint64_t(low) << 32 | high;
    const auto [entry, is_new] = place_.try_emplace(key, edges_.size());
    if (is_new) return edges_.push_back({source, target, weight, 1});
    repeated_.add_example([&] { return table.where(); });
    WeightedEdge& edge = edges_[entry->second];
    if (weight != edge.weight / edge.rows) other_weight_.add_example([&] { return table.where(); });
    switch (options_.repeated) {
      case RepeatedEdges::first:
        break;
      case RepeatedEdges::keep:
        edges_.push_back({source, target, weight, 1});
        break;
      case RepeatedEdges::max:
        edge.weight = std::max(edge.weight, weight);
        break;
      case RepeatedEdges::mean:
        edge.weight += weight;
        ++edge.rows;
        break;  // divided in take()
    }
  }

  std::vector<WeightedEdge> take() {
    for (WeightedEdge& edge : edges_) edge.weight /= edge.rows;
    return std::move(edges_);
  }

 private:
  const NetworkOptions& options_;
  Tally& repeated_;
  Tally& other_weight_;
  std::vector<WeightedEdge> edges_;
  std::unordered_map<uint64_t, size_t> place_;
};

std::vector<WeightedEdge> read_edges(const NetworkOptions& options, const Names& genes,
                                     ImportContext& context) {
  TableReader table(options.table);
  const std::string source = options.table.path.string();
  const auto tally = [&](const char* what) -> Tally& { return context.report.tally(source, what); };
  Tally& rows = tally("rows");
  GeneReader reader(genes, options.names, context, source);
  Tally& unknown = tally("rows left out: an unknown gene");
  Tally& ignored = tally("rows left out: an ignored gene, or none");
  Tally& missing = tally("rows without a weight");
  Tally& outside = tally("rows left out: weight outside the threshold");
  Tally& repeated = tally("rows that repeat an edge");
  Tally& other_weight = tally("rows that repeat an edge with another weight");
  Tally& non_numbers = tally("weights that are not numbers");

  const size_t source_column = table.column(options.source_column);
  const size_t target_column = table.column(options.target_column);
  const bool weighted = !options.weight_column.empty();
  const size_t weight_column = weighted ? table.column(options.weight_column) : 0;
  EdgeList edges(options, repeated, other_weight);
  std::vector<uint32_t> ends[2];

  context.progress.begin("reading " + source, table.bytes(), "bytes");
  while (table.next()) {
    rows.add();
    if (rows.count % 4096 == 0) context.progress.advance(table.bytes_read());
    ends[0].clear();
    ends[1].clear();
    if (!reader.read(table.cells()[source_column], ends[0]) ||
        !reader.read(table.cells()[target_column], ends[1])) {
      reader.refuse(table.where());
      unknown.add();
      continue;
    }
    if (ends[0].empty() || ends[1].empty()) {
      ignored.add_example([&] { return table.where(); });
      continue;
    }
    double weight = 1;
    if (weighted) {
      weight = number_cell(table, weight_column, context.non_numbers, non_numbers);
      if (std::isnan(weight)) {
        if (!options.missing_weight)
          throw Error("{}: no weight in column '{}'; say missing-weight=drop, or a number to take",
                      table.where(), options.weight_column);
        missing.add_example([&] { return table.where(); });
        weight = *options.missing_weight;
        if (std::isnan(weight)) continue;
      }
      if ((options.min && weight < *options.min) || (options.max && weight > *options.max)) {
        outside.add();
        continue;
      }
    }
    // A cell with several genes stands for an edge to each of them.
    if (const uint64_t edges_here = ends[0].size() * ends[1].size(); edges_here > kMostEdgesPerRow)
      throw Error("{}: {} and {} genes are {} edges, over {} in a row; is the table one of edges?",
                  table.where(), ends[0].size(), ends[1].size(), edges_here, kMostEdgesPerRow);
    for (const uint32_t u : ends[0])
      for (const uint32_t v : ends[1]) edges.add(u, v, weight, table);
  }
  context.progress.end();
  context.check_left_out(source, rows.count, unknown.count, reader.policy());
  context.add_source(options.table.path);
  return edges.take();
}

}  // namespace

void import_network(const NetworkOptions& options, const Names& genes, ImportContext& context,
                    HeteroGraph& graph) {
  const bool weighted = !options.weight_column.empty();
  if (!weighted && (options.min || options.max))
    throw UsageError("network '{}': a threshold needs weights; name their column (weight=COLUMN)",
                     options.name);
  const std::vector<WeightedEdge> edges = read_edges(options, genes, context);
  const std::string source = options.table.path.string();
  const uint32_t gene_count = genes.size();
  Tally& loops = context.report.tally(source, "self loops in the table");
  Tally& added = context.report.tally(source, "self loops added");

  std::vector<uint32_t> sources, targets;
  std::vector<float> weights;
  std::vector<double> loop_weights(gene_count, NAN);
  const auto store = [&](uint32_t u, uint32_t v, double weight) {
    sources.push_back(u);
    targets.push_back(v);
    weights.push_back(float(weight));
  };
  for (const WeightedEdge& edge : edges) {
    const bool is_loop = edge.source == edge.target;
    if (is_loop) loops.add_example([&] { return genes[edge.source]; });
    if (is_loop && options.self_loops) {
      loop_weights[edge.source] = edge.weight;
      continue;
    }
    store(edge.source, edge.target, edge.weight);
    if (!options.directed && !is_loop) store(edge.target, edge.source, edge.weight);
  }
  if (options.self_loops)
    for (uint32_t gene = 0; gene < gene_count; ++gene) {
      const bool from_table = !std::isnan(loop_weights[gene]);
      store(gene, gene, from_table ? loop_weights[gene] : options.loop_weight);
      if (!from_table) added.add();
    }
  const uint64_t count = sources.size();
  context.report.tally(source, "edges stored").count = count;
  sources.insert(sources.end(), targets.begin(), targets.end());
  std::vector<EdgeValue> values;
  if (weighted) values.push_back({"weight", Array::from(std::move(weights))});
  graph.add_edges("gene", options.name, "gene", narrow(sources, gene_count, {2, count}),
                  std::move(values));
}

}  // namespace lacuna
