// Spectral features of a screen's gene networks (graph/spectral.h): K columns a network, network
// after network in alphabetical order, as one feature of the genes.
#pragma once

#include <cstdint>

#include "lacuna/core/array.h"
#include "lacuna/core/system/progress.h"
#include "lacuna/graph/hetero_graph.h"

namespace lacuna {

// [N, T * K] f32: sqrt(N s) u of every singular pair, so that the mean square of a column is s. An
// edge counts as much as its value, 1 in networks without: the only value, or the one called
// `weight`. Throws Error that names the network.
Array spectral_features(const HeteroGraph& graph, uint32_t count,
                        Progress& progress = Progress::none());

}  // namespace lacuna
