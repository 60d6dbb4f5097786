// A graph without the edges of one type: what is left when a network is taken away from a model.
#pragma once

#include <string_view>

#include "lacuna/graph/hetero_graph.h"

namespace lacuna {

// The type stays, with no edge and no values, so that whatever has a place for each type fits both
// graphs. Throws Error for a key that the graph does not have.
HeteroGraph without_edges(const HeteroGraph& graph, std::string_view key);

}  // namespace lacuna
