// How well a model does on groups of a part's samples: by how many genes they remove, by category
// of each column (which screen, which medium), by how many of their genes training never removed.
//
// A correlation within a group asks another question than one over all: where groups differ in
// their means, knowing the group is worth much over all samples, and nothing within one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/screen/screen.h"

namespace lacuna::report {

struct GroupScore {
  std::string name;  // "2 genes", "costanzo2010", "none", "1 of 2", "all"
  Metrics metrics;
};
struct Grouping {
  std::string title;               // "by number of removed genes"
  std::vector<GroupScore> groups;  // two or more, each with a measured sample
  uint64_t left_out = 0;           // smaller groups beyond the first kMostGroups
};
inline constexpr size_t kMostGroups = 24;

// The groupings that tell samples apart: those with a single group are left out. Genes in order of
// their count, categories by their samples, most first. split: of the screen, the one that was
// trained on; null: nothing is said about unseen genes. Throws Error when a prediction is of a
// sample that the screen does not have.
std::vector<Grouping> group_scores(const Screen& screen, const PartPredictions& predictions,
                                   uint64_t label, const Split* split);

}  // namespace lacuna::report
