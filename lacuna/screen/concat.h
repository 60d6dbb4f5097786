// Several screens over the same genes and edges, joined into one: the samples of the first, then
// those of the second, and so on.
//
//   graph     must be the same in all: node names, edges, edge values and features, by contents.
//             Otherwise the Error names the first difference (which gene, at which line).
//   labels    all that any screen has, in order of first appearance; NaN where a screen lacks one
//   columns   likewise. Categories are merged by name, unknown where a screen lacks the column.
//             Numbers keep their type where all screens agree and have it; else they become f64,
//             NaN where a screen lacks the column (whole numbers beyond 2^53 are refused then).
//   splits    kept where every screen has one of that name, else dropped (and named in the result).
//             Samples that occur in several screens keep their parts, so a kept split may leak:
//             draw a new one where count_shared_sets() (split_notes.h) finds some.
//   source    optionally a column of categories that says which screen a sample came from
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lacuna/screen/screen.h"

namespace lacuna {

// Throws Error that names both screens and what differs.
void check_same_graph(const Screen& first, const Screen& other);

struct JoinedSamples {
  Samples samples;
  std::vector<Split> splits;
  std::vector<std::string> dropped_splits;
  std::vector<LabelNoise> noise;
};
// At least one screen. source_column: its name, or empty for none; its categories are the
// directories' names, or their paths where two are named alike.
JoinedSamples join_samples(std::span<const Screen> screens, const std::string& source_column,
                           Progress& progress = Progress::none());

}  // namespace lacuna
