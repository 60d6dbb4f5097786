// Samples that a model is asked about, whether or not anyone has measured them: listed in a file,
// all pairs of genes, all triples with given genes. They come one after another and are never all
// in memory.
//
//   const auto candidates = all_pairs(6607);              // 21,822,921 of them
//   std::vector<uint32_t> genes;
//   while (candidates->next(genes)) ask(genes);           // {0, 1}, {0, 2}, ... {6605, 6606}
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/graph/names.h"

namespace lacuna {

class Candidates {
 public:
  virtual ~Candidates() = default;
  // Replaces the contents of `genes` by the removed genes of the next sample; false behind the last
  // one.
  virtual bool next(std::vector<uint32_t>& genes) = 0;

  uint64_t size() const { return size_; }      // how many samples in all
  uint32_t widest() const { return widest_; }  // the most genes that one of them removes

 protected:
  uint64_t size_ = 0;
  uint32_t widest_ = 0;
};

// Ascending by the first gene, then by the second.
std::unique_ptr<Candidates> all_pairs(uint32_t gene_count);
// The triples that remove all of `given`, which are one gene or two: those first, as given, then
// the others, ascending. Throws Error for a number of genes that is neither, or a repeated one.
std::unique_ptr<Candidates> all_triples_with(std::span<const uint32_t> given, uint32_t gene_count);

// A text file, a sample a line: names of genes with commas, tabs or spaces between them, in double
// quotes or not: a name that holds one of those, or begins with '#', needs them (and a quote in it
// is written twice). An apostrophe before = + - or @ is taken off (core/csv.h). A gene that is
// named twice is removed once. A line with '-' alone is the wild type; empty lines, and what
// follows a '#' that begins a word, are passed over. The file is read twice: here, so that what is
// wrong shows before any work, then sample by sample. Throws Error with file and line for a name
// that is no gene's, with the nearest one. `names` must outlive the candidates.
//
// A file whose first line begins with gene_1, where no gene is called so, is a table with a head,
// as train/prediction_file.h writes it (screen/table.h; commas or tabs): its columns gene_1,
// gene_2, ... name the genes, empty cells none, so that a row without any is the wild type; other
// columns are passed over.
std::unique_ptr<Candidates> listed_samples(const fs::path& file, const Names& names);

// The gene of this name; throws Error with the nearest name. `where` begins the message: "file:12".
uint32_t find_gene(const Names& names, std::string_view name, const std::string& where);

}  // namespace lacuna
