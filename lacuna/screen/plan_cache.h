// The slab plan of a graph (ops/slab/slab_plan.h), kept beside the screen: it takes seconds to
// make and milliseconds to read.
//
//   const CachedPlan plan = cached_plan(screen, capacity);
//   if (!plan.note.empty()) show(plan.note);
//
// It lies in SCREEN/cache/slices-<key>.bin (docs/formats.md). The key is a hash of the edges as the
// graph plan holds them, of the capacity and of the slab plan's version: another graph, another
// device or another version of the program uses another file. A file is used in place, mapped,
// after its length, its checksum and its contents were checked; one that fails is made anew. It is
// written aside and renamed, so a reader sees all of it or nothing, and of several writers at once
// the last one wins. The folder may be deleted at any time; no manifest names it.
//
// Only the plan of the screen's own graph is kept. A shuffled control is another graph for every
// seed: its plan is made again in each run, or the cache would grow with every seed.
#pragma once

#include <cstdint>
#include <string>

#include "lacuna/core/system/file.h"
#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/slab/slab_plan.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

struct CachedPlan {
  enum How {
    read,           // from the file
    made,           // and saved
    made_not_saved  // the file could not be written (`note` says why), or it is a shuffled control
  };
  GraphPlan graph;
  SlabPlan slabs;
  How how = read;
  std::string note;  // one line for the user when something was wrong, else empty
};

// The gene-gene edge types in the order of HeteroGraph::gene_edges().
GraphPlan plan_gene_edges(const HeteroGraph& graph);

// The plans of a screen's gene-gene edges. capacity: see slab_capacity(); throws what
// SlabPlan::make() throws. threads 0: all available.
CachedPlan cached_plan(const Screen& screen, uint32_t capacity, int threads = 0);
// The same for the graph that a run computes on: kept where its gene-gene edges are the screen's.
CachedPlan cached_plan(const Screen& screen, const HeteroGraph& graph, uint32_t capacity,
                       int threads = 0);
// The same for any graph, kept in `folder`, which is made if need be.
CachedPlan cached_plan(const fs::path& folder, const GraphPlan& graph, uint32_t capacity,
                       int threads = 0);
// SCREEN/cache
fs::path cache_folder(const Screen& screen);

}  // namespace lacuna
