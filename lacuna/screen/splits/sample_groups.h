// Groups of samples that must stay together when a screen is split.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

// The set of genes that each sample removes: sorted, without repeats, checked against the gene
// count. A view; the samples outlive it.
class GeneSets {
 public:
  explicit GeneSets(const Screen& screen)
      : GeneSets(screen.samples(), screen.graph().genes().size()) {}
  GeneSets(const Samples& samples, uint32_t gene_count)
      : reader_(samples), gene_count_(gene_count) {}
  uint64_t size() const { return reader_.size(); }
  const std::vector<uint32_t>& read(uint64_t sample);  // valid until the next call

 private:
  RemovedReader reader_;
  uint32_t gene_count_;
  std::vector<uint32_t> genes_;
};

// A union-find over fewer than 2^32 samples; at first each is on its own. The root of a group is
// its first sample.
class SampleGroups {
 public:
  using Keyed = std::pair<uint64_t, uint32_t>;  // key, sample

  explicit SampleGroups(uint64_t samples);
  uint64_t size() const { return parent_.size(); }  // samples
  uint32_t root(uint32_t sample);
  void unite(uint32_t a, uint32_t b);
  void unite_equal_keys(std::vector<Keyed> keyed);

 private:
  std::vector<uint32_t> parent_;
};

// The samples of every gene, one gene after another; 4 bytes for each gene that a sample removes.
struct SamplesOfGenes {
  std::vector<uint64_t> ptr;      // [genes + 1]
  std::vector<uint32_t> samples;  // [ptr[genes]], ascending within a gene

  explicit SamplesOfGenes(const Screen& screen);
  std::span<const uint32_t> of(uint32_t gene) const {
    return {samples.data() + ptr[gene], ptr[gene + 1] - ptr[gene]};
  }
};

// Samples that remove the same set of genes.
void unite_repeats(const Screen& screen, SampleGroups& groups, Progress& progress);
// Samples of the same category; those of unknown category stay as they are.
void unite_categories(const Column& column, SampleGroups& groups);
// Samples that remove a pair of genes that is the query pair of some sample (see split.h).
void unite_query_pairs(const Screen& screen, SampleGroups& groups, Progress& progress);

}  // namespace lacuna
