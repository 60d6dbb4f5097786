// Samples to predict: listed in a file, all pairs of genes, all pairs or triples with given genes,
// measured or only those that are not. They come one after another and are never all in memory.
//
//   const auto candidates = all_pairs(all_genes(6607));   // 21,822,921 of them
//   std::vector<uint32_t> genes;
//   while (candidates->next(genes)) predict(genes);       // {0, 1}, {0, 2}, ... {6605, 6606}
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lacuna/core/shard.h"
#include "lacuna/core/system/file.h"
#include "lacuna/graph/names.h"
#include "lacuna/screen/samples.h"

namespace lacuna {

class Candidates {
 public:
  virtual ~Candidates() = default;
  // Replaces the contents of `genes` by the removed genes of the next sample; false after the last.
  virtual bool next(std::vector<uint32_t>& genes) = 0;

  uint64_t size() const { return size_; }      // how many samples in all
  uint32_t widest() const { return widest_; }  // the most genes that one of them removes

 protected:
  uint64_t size_ = 0;
  uint32_t widest_ = 0;
};

// Those of a shard; as wide as all of them.
std::unique_ptr<Candidates> shard_of(std::unique_ptr<Candidates> all, const Shard& shard);

// Those that others than the given genes are taken from, ascending, each once: 0 to count - 1, or
// those that a file names (as listed_samples() reads it, however many a line).
std::vector<uint32_t> all_genes(uint32_t count);
std::vector<uint32_t> listed_genes(const fs::path& file, const Names& names);

// Ascending by the first gene, then by the second.
std::unique_ptr<Candidates> all_pairs(std::vector<uint32_t> pool);
// The pairs of a given gene and one of the pool: the first given gene and its partners, ascending,
// then the second and its partners, and so on; a pair of two given genes comes once. Throws Error
// for no gene, or a repeated one.
std::unique_ptr<Candidates> all_pairs_with(std::span<const uint32_t> given,
                                           const std::vector<uint32_t>& pool);
// The triples that remove all of `given`, one gene or two: those come first, as given, then the
// others, ascending. Throws Error for another number of genes, or a repeated one.
std::unique_ptr<Candidates> all_triples_with(std::span<const uint32_t> given,
                                             const std::vector<uint32_t>& pool);

// The sets of genes of a screen's samples for which one of these labels, by place, was measured.
class MeasuredSets {
 public:
  MeasuredSets(const Samples& samples, uint32_t gene_count, std::span<const uint64_t> labels);
  bool has(std::vector<uint32_t> genes) const;  // in any order

 private:
  std::unordered_set<uint64_t> keys_;  // hashes: two sets share one with a chance of 2^-64
};
// Those whose set of genes was not measured. `make` gives all of them, and is called twice: how
// many are left must be known before the first is predicted.
std::unique_ptr<Candidates> unmeasured(const std::function<std::unique_ptr<Candidates>()>& make,
                                       MeasuredSets measured);

// A text file with one sample per line: names or aliases of genes, in any case where that is clear,
// or as Names::shown() writes them, separated by commas, tabs or spaces. A name
// that holds one of these, or begins with '#', must stand in double quotes (a quote in it is
// doubled); others may. An apostrophe before = + - or @ is taken off (core/text/csv.h). A gene that
// is named twice is removed once. A line with '-' alone is the wild type; empty lines, and comments
// (from a '#' that begins a word), are skipped. The file is read twice: here, so that errors show
// before any work, then sample by sample. Throws Error with file, line and the nearest name for an
// unknown gene. `names` must outlive the candidates.
//
// A file whose first line begins with gene_1, unless a gene has that name, is a table with a
// header, as run/predict/ writes it (screen/import/table.h; commas or tabs): its columns gene_1,
// gene_2, ... name the genes, a row whose cells there are empty is the wild type, and other columns
// are skipped.
std::unique_ptr<Candidates> listed_samples(const fs::path& file, const Names& names);

// The gene of this name or alias; throws Error with the nearest name. `where` begins the message:
// "file:12".
uint32_t find_gene(const Names& names, std::string_view name, const std::string& where);

}  // namespace lacuna
