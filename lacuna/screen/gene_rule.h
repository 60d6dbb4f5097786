// Which genes a reaction needs, as annotations write it: "(A and B) or C".
//
// A rule is taken apart into gene sets, each of which is sufficient: {A, B} and {C}. Rules nest
// with parentheses to any sensible depth; "and" binds tighter than "or"; both may be in upper or
// lower case, or written & && | ||. Sets keep the order of the rule, without repeated genes or
// repeated sets. {A, B} or {A} stays two sets: they are two ways to do the reaction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

using GeneSet = std::vector<std::string>;

// No sets for an empty rule: the reaction needs no gene. Throws Error for a malformed rule, with
// the place, and for one that multiplies out to over 10,000 sets or would take minutes.
std::vector<GeneSet> parse_gene_rule(std::string_view rule);

}  // namespace lacuna
