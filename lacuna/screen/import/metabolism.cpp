#include "lacuna/screen/import/metabolism.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/screen/gene_rule.h"

namespace lacuna {
namespace {

constexpr size_t kMostEdges = 200'000'000;  // rules and alternatives multiply out

void check_count(size_t edges, const std::string& where) {
  if (edges > kMostEdges)
    throw Error("{}: its rules multiply out to over {} edges; write them shorter", where,
                kMostEdges);
}

struct Reactions {
  std::vector<std::string> names;                                           // [R] of the nodes
  std::vector<std::vector<float>> features;                                 // [number columns][R]
  std::vector<uint32_t> rule_genes, rule_nodes;                             // gene-reaction edges
  std::unordered_map<std::string, std::pair<uint32_t, uint32_t>> nodes_of;  // name: begin, end
};

struct Entry {
  uint32_t metabolite;
  float coefficient;
};

struct Stoichiometry {
  std::vector<std::string> metabolites;
  std::unordered_map<std::string, std::vector<Entry>> of;  // by reaction name, in table order
};

std::vector<GeneSet> read_rule(const TableReader& table, size_t column) {
  try {
    return parse_gene_rule(table.cells()[column]);
  } catch (const Error& error) {
    throw Error("{}: {}", table.where(), error.what());
  }
}

// The genes of one set that are known and not ignored.
std::vector<uint32_t> known_genes(const GeneSet& set, GeneReader& reader, const TableReader& table,
                                  Tally& without) {
  std::vector<uint32_t> genes;
  for (const std::string& name : set)
    if (!reader.read(name, genes)) {
      reader.refuse(table.where());
      without.add();
    }
  return genes;
}

Reactions read_reactions(const MetabolismOptions& options, const Names& genes,
                         ImportContext& context) {
  TableReader table(options.reactions);
  const std::string source = options.reactions.path.string();
  const auto tally = [&](const char* what) -> Tally& { return context.report.tally(source, what); };
  Tally& rows = tally("reactions");
  Tally& split = tally("reactions with several gene sets (\"or\")");
  Tally& without_genes = tally("reactions without genes");
  Tally& unknown = tally("unknown genes taken out of rules");
  Tally& non_numbers = tally("cells that are not numbers");
  const size_t name_column = table.column(options.reaction_column);
  const size_t rule_column = table.column(options.rule_column);
  std::vector<size_t> number_columns;
  for (const std::string& name : options.number_columns)
    number_columns.push_back(table.column(name));
  NameRules one_gene = options.names;
  one_gene.separator.clear();
  GeneReader reader(genes, one_gene, context, source);

  Reactions reactions;
  reactions.features.resize(number_columns.size());
  while (table.next()) {
    rows.add();
    const std::string name(trimmed(table.cells()[name_column]));
    if (name.empty())
      throw Error("{}: no reaction in column '{}'", table.where(), options.reaction_column);
    const uint32_t begin = uint32_t(reactions.names.size());
    std::vector<GeneSet> sets = read_rule(table, rule_column);
    if (sets.empty()) without_genes.add();
    if (sets.empty()) sets.push_back({});
    if (sets.size() > 1) split.add();
    for (size_t s = 0; s < sets.size(); ++s) {
      const uint32_t node = uint32_t(reactions.names.size());
      for (const uint32_t gene : known_genes(sets[s], reader, table, unknown)) {
        reactions.rule_genes.push_back(gene);
        reactions.rule_nodes.push_back(node);
      }
      check_count(reactions.rule_genes.size(), table.where());
      reactions.names.push_back(sets.size() > 1 ? fmt::format("{}#{}", name, s + 1) : name);
      for (size_t c = 0; c < number_columns.size(); ++c)
        reactions.features[c].push_back(
            float(number_cell(table, number_columns[c], context.non_numbers, non_numbers)));
    }
    const uint32_t end = uint32_t(reactions.names.size());
    if (!reactions.nodes_of.try_emplace(name, begin, end).second)
      throw Error("{}: reaction '{}' is listed twice; take one out", table.where(), name);
  }
  tally("reaction nodes").count = reactions.names.size();
  tally("gene-reaction edges").count = reactions.rule_genes.size();
  context.add_source(options.reactions.path);
  return reactions;
}

Stoichiometry read_stoichiometry(const MetabolismOptions& options, const Reactions& reactions,
                                 ImportContext& context) {
  TableReader table(options.stoichiometry);
  const std::string source = options.stoichiometry.path.string();
  const auto tally = [&](const char* what) -> Tally& { return context.report.tally(source, what); };
  Tally& rows = tally("rows");
  Tally& unknown = tally("rows left out: an unknown reaction");
  Tally& repeated = tally("rows that repeat a metabolite of a reaction (kept)");
  Tally& not_used = tally("cells that are not numbers");
  const size_t reaction_column = table.column(options.stoichiometry_reaction_column);
  const size_t metabolite_column = table.column(options.metabolite_column);
  const size_t coefficient_column = table.column(options.coefficient_column);

  Stoichiometry result;
  std::unordered_map<std::string, uint32_t> index;
  std::set<std::pair<const void*, uint32_t>> seen;  // a reaction's entries, and a metabolite
  while (table.next()) {
    rows.add();
    const std::string reaction(trimmed(table.cells()[reaction_column]));
    if (!reactions.nodes_of.contains(reaction)) {
      if (context.unknown == UnknownPolicy::error)
        throw Error("{}: unknown reaction '{}'; --unknown drop leaves such rows out", table.where(),
                    reaction);
      unknown.add_example([&] { return fmt::format("{}: '{}'", table.where(), reaction); });
      continue;
    }
    const std::string metabolite(trimmed(table.cells()[metabolite_column]));
    if (metabolite.empty())
      throw Error("{}: no metabolite in column '{}'", table.where(), options.metabolite_column);
    const auto [entry, is_new] = index.try_emplace(metabolite, uint32_t(result.metabolites.size()));
    if (is_new) result.metabolites.push_back(metabolite);
    const double coefficient =
        number_cell(table, coefficient_column, NonNumberPolicy::error, not_used);
    if (std::isnan(coefficient))
      throw Error("{}: no coefficient in column '{}'", table.where(), options.coefficient_column);
    std::vector<Entry>& entries = result.of[reaction];
    if (!seen.emplace(&entries, entry->second).second)
      repeated.add_example([&] { return fmt::format("{}: '{}'", table.where(), metabolite); });
    entries.push_back({entry->second, float(coefficient)});
  }
  tally("metabolites").count = result.metabolites.size();
  context.add_source(options.stoichiometry.path);
  return result;
}

// [2, E] from sources and targets.
Array edge_array(std::vector<uint32_t> sources, const std::vector<uint32_t>& targets,
                 uint64_t larger_count) {
  const uint64_t count = sources.size();
  sources.insert(sources.end(), targets.begin(), targets.end());
  return narrow(sources, larger_count, {2, count});
}

}  // namespace

void import_metabolism(const MetabolismOptions& options, const Names& genes, ImportContext& context,
                       HeteroGraph& graph) {
  Reactions reactions = read_reactions(options, genes, context);
  const Stoichiometry stoichiometry = read_stoichiometry(options, reactions, context);
  const uint64_t reaction_count = reactions.names.size();
  const uint64_t metabolite_count = stoichiometry.metabolites.size();

  std::vector<std::pair<std::string, std::pair<uint32_t, uint32_t>>> in_order(
      reactions.nodes_of.begin(), reactions.nodes_of.end());
  std::sort(in_order.begin(), in_order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<uint32_t> nodes, metabolites;
  std::vector<float> coefficients;
  for (const auto& [name, range] : in_order) {
    const auto entries = stoichiometry.of.find(name);
    if (entries == stoichiometry.of.end()) continue;
    check_count(nodes.size() + (range.second - range.first) * entries->second.size(),
                options.stoichiometry.path.string());
    for (uint32_t node = range.first; node < range.second; ++node)
      for (const Entry& entry : entries->second) {
        nodes.push_back(node);
        metabolites.push_back(entry.metabolite);
        coefficients.push_back(entry.coefficient);
      }
  }
  context.report.tally(options.stoichiometry.path.string(), "reaction-metabolite edges").count =
      nodes.size();

  graph.add_nodes("reaction", Names(std::move(reactions.names)));
  graph.add_nodes("metabolite", Names(stoichiometry.metabolites));
  for (size_t c = 0; c < options.number_columns.size(); ++c)
    graph.add_feature("reaction", options.number_columns[c],
                      Array::from(std::move(reactions.features[c]), {reaction_count, 1}));
  graph.add_edges("gene", "rule", "reaction",
                  edge_array(std::move(reactions.rule_genes), reactions.rule_nodes,
                             std::max<uint64_t>(genes.size(), reaction_count)));
  graph.add_edges(
      "reaction", "stoichiometry", "metabolite",
      edge_array(std::move(nodes), metabolites, std::max(reaction_count, metabolite_count)),
      {{"coefficient", Array::from(std::move(coefficients))}});
}

}  // namespace lacuna
