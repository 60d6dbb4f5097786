// Metabolism from two tables: reactions with their gene rules, and stoichiometry.
//
// A rule with "or" gives one reaction node for each sufficient gene set (see gene_rule.h): reaction
// R becomes R#1, R#2, ..., each with the genes of its set and all of R's metabolites, so that "a
// reaction is off when any of its genes is removed" stays exact. With one set or none it keeps its
// name.
//
//   gene.rule.reaction                  (gene, reaction) for every gene of the set
//   reaction.stoichiometry.metabolite   value "coefficient": reactants negative, products positive
//
// A gene of a rule that is unknown (--unknown drop) or ignored is never removed, so it is taken out
// of its set; where that leaves a set empty, the reaction always stays. Reactions are in the order
// of their table, metabolites in the order in which the stoichiometry first names them.
#pragma once

#include <string>
#include <vector>

#include "lacuna/graph/hetero_graph.h"
#include "lacuna/screen/import/gene_names.h"

namespace lacuna {

struct MetabolismOptions {
  TableSource reactions;
  std::string reaction_column = "reaction", rule_column = "rule";
  std::vector<std::string> number_columns;  // node features of the reactions, [R, 1] each
  NameRules names;                          // of the genes in rules; the separator is not used

  TableSource stoichiometry;
  std::string stoichiometry_reaction_column = "reaction", metabolite_column = "metabolite",
              coefficient_column = "coefficient";
};

// Throws Error with file and line for a repeated reaction, a malformed rule, and a coefficient that
// is missing or not a number. Stoichiometry of an unknown reaction follows --unknown.
void import_metabolism(const MetabolismOptions& options, const Names& genes, ImportContext& context,
                       HeteroGraph& graph);

}  // namespace lacuna
