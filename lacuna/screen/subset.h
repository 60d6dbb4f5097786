// Some of the samples of a screen, chosen by conditions, or at random; the graph stays whole.
//
// A condition is one line of text. Several hold together (and).
//
//   removed=2   2<=removed<4      number of different genes it removes
//   any-gene=A,B,C                removes at least one of these genes
//   only-genes=A,B,C              removes no other genes; this includes the wild type
//   no-gene=A,B,C                 removes none of these genes
//   any-gene=@FILE                names from a file, one per line (also only-genes, no-gene)
//   measured=LABEL                this label is not missing
//   split:NAME=train,validation   lies in one of these parts of a split
//   sd<=0.05   0.01<=p<0.05       a column of numbers, or a label
//   screen=A,B   screen!=A        a column of categories: one of these, none of these
//
// Comparisons are <, <=, >, >=, = and !=, with the number as the column would store it: where that
// is f32, p=0.05 finds what was imported as 0.05. A missing number and an unknown category meet no
// condition, not even !=. "column:NAME" and "label:NAME" say which is meant, where a column and a
// label share a name or a column is named like a word above.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/screen/screen.h"

namespace lacuna {

// The samples that meet all conditions, ascending. Throws UsageError for a malformed condition,
// Error for a gene, label, column, category or split that the screen does not have.
std::vector<uint64_t> select_samples(const Screen& screen, const std::vector<std::string>& where,
                                     Progress& progress = Progress::none());

// `count` of the given samples, each set equally likely, in the order given; the same seed gives
// the same ones. Throws Error where there are fewer.
std::vector<uint64_t> draw_samples(std::vector<uint64_t> samples, uint64_t count, uint64_t seed);

struct SubsetOptions {
  std::vector<std::string> where = {};  // conditions; none: all samples
  std::optional<uint64_t> random = {};  // so many of those, at random
  uint64_t seed = 0;
};
// Writes them as a new screen with the same graph. Labels, columns and splits come along; a split's
// `how` says that it was cut. Throws Error when no sample meets the conditions.
Screen write_subset(const Screen& screen, const fs::path& out, const SubsetOptions& options,
                    Json made_by, Progress& progress = Progress::none());

}  // namespace lacuna
