// In-degrees of the kept graph, and the scales that reductions make of them.
#pragma once

#include <vector>

#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/aggregate/removed_sets.h"

namespace lacuna {

// [N, B]: in-edges of the type whose source is kept, repeats counted. (A removed node has some too;
// nothing reads them.)
std::vector<double> kept_in_degrees(const GraphPlan& graph, uint32_t type,
                                    const RemovedSets& removed, int64_t batch);

// What a degree is made into: mean 1/d, gcn 1/sqrt(d), max 1; 0 where it is 0.
double degree_scale(Reduce reduce, double degree);

// [T][N, B]: the scales of the kept degrees (max: 0 at removed nodes too); empty for sum.
std::vector<std::vector<double>> degree_scales(const GraphPlan& graph, Reduce reduce,
                                               const RemovedSets& removed, int64_t batch,
                                               int threads);

}  // namespace lacuna
