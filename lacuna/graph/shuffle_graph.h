// The control graph: every gene keeps its degrees and gets other partners. What a model still gains
// from a graph like this comes from degrees, not from who is linked to whom.
//
// Each gene-gene edge type is shuffled on its own, by random swaps: two links a - b and c - d
// become a - d and c - b, unless one of these already exists. So, for every type and gene,
//   - in-degree and out-degree stay exactly as they were;
//   - self loops stay where they are, and no new one arises;
//   - two-way links stay two-way and one-way edges one-way: an undirected type stays undirected;
//   - no repeated edge arises; one that was stored k times is still stored k times, elsewhere.
// An edge keeps its place in the list and its values; a one-way edge keeps its source too. Nodes,
// features and edges of other kinds (metabolism) are those of the given graph.
//
// Ten swaps per link are tried; more would not change more partners. A gene that is linked to most
// others must keep most of its partners.
//
// A pure function of graph and seed: the same bytes on every run and for every number of threads.
// Memory is linear in the edges, however many genes there are: about 60 bytes for each edge of the
// types that are shuffled at the same time, plus at most 64 per link where few genes have many.
#pragma once

#include <cstdint>

#include "lacuna/graph/hetero_graph.h"

namespace lacuna {

// threads 0: all available; a type is shuffled by one of them.
HeteroGraph shuffle_graph(const HeteroGraph& graph, uint64_t seed, int threads = 0);

}  // namespace lacuna
