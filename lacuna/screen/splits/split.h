// Splits into training, validation and test: a part for every sample, as a pure function of the
// samples, the options and the seed.
//
//   random      samples at random.
//   stratified  at random within strata, so that each part has its share of every stratum: the
//               categories of a column (unknown is one more), or bins of equal size of a column of
//               numbers or of a label (missing is one more).
//   gene        some genes are held out for test, some for validation. A sample that removes a test
//               gene is test, whatever else it removes; of the others, one that removes a
//               validation gene is validation; the rest is training. So every test sample has a
//               gene that neither training nor validation ever removes, and every validation sample
//               has one that training never removes. No sample is lost; wild types train.
//   pair        query pairs are held out. The query pair of a sample is the pair of its genes that
//               the most samples of the screen remove together (of equals, the pair of the lowest
//               indices). A pair that is some sample's query pair is removed, in whatever role, by
//               samples of one part only. Other pairs of a test sample (a query gene and an array
//               gene) may occur in training. Samples of fewer than two genes are dealt out at
//               random. With a column of categories, its categories are the query pairs: all
//               samples of a category lie in one part, samples of unknown category at random.
//   category    the categories of a column are held out as a whole: screens, batches, query pairs.
//               Samples of unknown category are dealt out at random. Named categories (hold_out)
//               are test, all of them and nothing else: leave-one-screen-out. The other samples are
//               training and validation in the ratio of their fractions; those that remove the same
//               set of genes as a test sample are unused, unless repeats are drawn apart.
//
// Folds of a split by gene: several splits, in which every gene that a sample removes is held out
// for test once, and together they score every sample that removes one. Genes are dealt so that
// each fold has as many, rare and frequent ones alike. Of the others some are held out for
// validation, as above.
//
// Repeats: samples that remove the same set of genes go to the same part, else a test label could
// be looked up in training. Where repeats differ in more than chance (one genotype in many media)
// they can be drawn apart (repeats_together = false) by random, stratified, category, and pair with
// a column; the others keep them together by their nature.
//
// Fractions are of samples. What they leave of 1 is unused. Each group goes to the part that is
// furthest behind, so the counts differ from the fractions by less than one sample (random and
// stratified without repeats) or about one group; the true counts are in Split::how, with the
// number of groups and the size of the largest: split_notes.h makes words of them. Throws Error
// where a part that was asked for would be empty.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/screen/screen.h"

namespace lacuna {

enum class SplitBy { random, stratified, gene, pair, category };
std::string_view name(SplitBy by);
SplitBy split_by_from_name(std::string_view name);

struct DrawOptions {
  SplitBy by = SplitBy::random;
  std::array<double, 3> fractions = {0.8, 0.1, 0.1};  // train, validation, test; together at most 1
  uint64_t seed = 0;
  std::string column = {};  // stratified: a column or a label; pair: a column, or none; category
  uint32_t bins = 10;       // stratified by numbers
  bool repeats_together = true;
  std::vector<std::string> hold_out = {};  // category: these are test; none: drawn by fractions
};

// Throws UsageError for options that cannot work, Error where the samples do not allow the split.
// Up to 40 bytes of memory per sample of three genes.
// Folds NAME-1 to NAME-<folds>, by gene. Of the fractions only validation's counts. Split::how has
// "folds": {"name": NAME, "fold": 1, 2, ..., "of": folds} and "test_genes", how many it holds out.
std::vector<Split> draw_gene_folds(const Screen& screen, const std::string& name, uint64_t folds,
                                   const DrawOptions& options);
Split draw_split(const Screen& screen, std::string name, const DrawOptions& options,
                 Progress& progress = Progress::none());

// A split that was drawn elsewhere: {"train": [...], "val" or "validation": [...], "test": [...]},
// numbers of samples of this screen; those in no list are unused. Throws Error for a number that is
// no sample or is in two lists.
Split split_from_json(const Screen& screen, std::string name, const fs::path& file);

}  // namespace lacuna
