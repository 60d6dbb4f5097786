// The gene networks of a screen as the network baseline reads them: who is linked to whom, how
// strongly, and how alike the neighbourhoods of two genes are.
//
// Of an edge type between genes: the value "weight" of an edge is its strength (1 where the type
// has no such value; NaN and what is not above 0 is no link). Direction is left out, of repeated
// edges and of both directions the strongest counts, self loops are left out, and strengths are
// divided by the largest. With the matrix A of these and D the sums of its rows,
//
//   L = D^-1/2 A D^-1/2
//
// in which hubs count no more than others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lacuna/graph/hetero_graph.h"

namespace lacuna {

struct GeneNetwork {
  std::string name;
  std::vector<uint64_t> ptr;        // [N + 1]
  std::vector<uint32_t> neighbour;  // [ptr[N]] ascending in a row; both directions of a link
  std::vector<double> strength;     // [ptr[N]] A, in (0, 1]
  std::vector<double> scaled;       // [ptr[N]] L
  std::vector<double> degree;       // [N] sum of strengths
  std::vector<double> log_links;    // [N] log(1 + number of neighbours)
  std::vector<double> length;       // [N] of the row of L, and 1e-9

  uint32_t size() const { return uint32_t(degree.size()); }  // genes
  // Row `gene` of A and of L L, dense: [N] each. L L is where L L^T is: the row's products with all
  // rows of L.
  void read_row(uint32_t gene, std::span<double> strengths, std::span<double> products) const;
};

// One for each gene-gene edge type, in alphabetical order.
std::vector<GeneNetwork> gene_networks(const HeteroGraph& graph);

}  // namespace lacuna
