// Samples to predict, measured or not: listed in a file, all pairs of genes, all triples with given
// genes. They come one after another and are never all in memory.
//
//   const auto candidates = all_pairs(6607);              // 21,822,921 of them
//   std::vector<uint32_t> genes;
//   while (candidates->next(genes)) predict(genes);       // {0, 1}, {0, 2}, ... {6605, 6606}
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/shard.h"
#include "lacuna/core/system/file.h"
#include "lacuna/graph/names.h"

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

// Ascending by the first gene, then by the second.
std::unique_ptr<Candidates> all_pairs(uint32_t gene_count);
// The triples that remove all of `given`, one gene or two: those come first, as given, then the
// others, ascending. Throws Error for another number of genes, or a repeated one.
std::unique_ptr<Candidates> all_triples_with(std::span<const uint32_t> given, uint32_t gene_count);

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
