#include "lacuna/screen/splits/sample_groups.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "lacuna/core/hash.h"
#include "lacuna/graph/removal.h"

namespace lacuna {
namespace {

// A gene that is removed together with another, and the sample.
using Partner = std::pair<uint32_t, uint32_t>;

// Calls f(pair, partners) once for every pair of genes that some sample removes, in ascending order
// of pairs (the lower gene in the upper half); partners are its samples. Pairs are gathered gene by
// gene, so that only one gene's are in memory.
template <class F>
void for_each_pair(GeneSets& sets, const SamplesOfGenes& all, Progress& progress, F&& f) {
  std::vector<Partner> partners;
  const uint64_t genes = all.ptr.size() - 1;
  progress.begin("looking at pairs", genes, "genes");
  for (uint32_t gene = 0; gene < genes; ++gene) {
    partners.clear();
    for (const uint32_t s : all.of(gene))
      for (const uint32_t other : sets.read(s))
        if (other > gene) partners.emplace_back(other, s);
    std::sort(partners.begin(), partners.end());
    for (auto begin = partners.begin(); begin != partners.end();) {
      const uint32_t other = begin->first;
      const auto end =
          std::find_if(begin, partners.end(), [&](const Partner& p) { return p.first != other; });
      f(uint64_t(gene) << 32 | other, std::span<const Partner>(begin, end));
      begin = end;
    }
    progress.advance(gene);
  }
  progress.end();
}

}  // namespace

const std::vector<uint32_t>& GeneSets::read(uint64_t sample) {
  reader_.read(sample, genes_);
  check_removed(genes_, sample, gene_count_);
  std::sort(genes_.begin(), genes_.end());
  genes_.erase(std::unique(genes_.begin(), genes_.end()), genes_.end());
  return genes_;
}

SamplesOfGenes::SamplesOfGenes(const Screen& screen) : ptr(screen.graph().genes().size() + 1) {
  GeneSets sets(screen);
  for (uint64_t s = 0; s < sets.size(); ++s)
    for (const uint32_t gene : sets.read(s)) ++ptr[gene + 1];
  std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
  samples.resize(ptr.back());
  std::vector<uint64_t> next(ptr.begin(), ptr.end() - 1);
  for (uint64_t s = 0; s < sets.size(); ++s)
    for (const uint32_t gene : sets.read(s)) samples[next[gene]++] = uint32_t(s);
}

SampleGroups::SampleGroups(uint64_t samples) : parent_(samples) {
  std::iota(parent_.begin(), parent_.end(), 0u);
}

uint32_t SampleGroups::root(uint32_t sample) {
  while (parent_[sample] != sample) sample = parent_[sample] = parent_[parent_[sample]];
  return sample;
}

void SampleGroups::unite(uint32_t a, uint32_t b) {
  a = root(a);
  b = root(b);
  parent_[std::max(a, b)] = std::min(a, b);
}

void SampleGroups::unite_equal_keys(std::vector<Keyed> keyed) {
  std::sort(keyed.begin(), keyed.end());
  for (size_t i = 1; i < keyed.size(); ++i)
    if (keyed[i].first == keyed[i - 1].first) unite(keyed[i].second, keyed[i - 1].second);
}

// Samples that remove the same set of genes have the same key. (Two different sets share a key with
// a chance of 2^-64, and then they merely go to the same part.)
void unite_repeats(const Screen& screen, SampleGroups& groups, Progress& progress) {
  GeneSets sets(screen);
  std::vector<SampleGroups::Keyed> keyed(sets.size());
  progress.begin("looking for repeats", sets.size(), "samples");
  for (uint64_t s = 0; s < sets.size(); ++s) {
    keyed[s] = {hash64(std::as_bytes(std::span(sets.read(s)))), uint32_t(s)};
    if (s % kReportEvery == 0) progress.advance(s);
  }
  progress.end();
  groups.unite_equal_keys(std::move(keyed));
}

void unite_categories(const Column& column, SampleGroups& groups) {
  std::vector<SampleGroups::Keyed> keyed;
  for (uint64_t s = 0; s < column.values.size(); ++s)
    if (const auto code = column.code(s)) keyed.emplace_back(*code, uint32_t(s));
  groups.unite_equal_keys(std::move(keyed));
}

void unite_query_pairs(const Screen& screen, SampleGroups& groups, Progress& progress) {
  GeneSets sets(screen);
  const SamplesOfGenes all(screen);
  std::vector<uint64_t> query(sets.size());  // of each sample, where times is not 0
  std::vector<uint32_t> times(sets.size());  // how many samples remove it
  for_each_pair(sets, all, progress, [&](uint64_t pair, std::span<const Partner> partners) {
    for (const auto& [other, s] : partners) {
      if (partners.size() <= times[s]) continue;  // the first of equals
      times[s] = uint32_t(partners.size());
      query[s] = pair;
    }
  });
  for_each_pair(sets, all, progress, [&](uint64_t pair, std::span<const Partner> partners) {
    const bool is_query = std::any_of(partners.begin(), partners.end(),
                                      [&](const Partner& p) { return query[p.second] == pair; });
    if (!is_query) return;
    for (const auto& [other, s] : partners) groups.unite(s, partners.front().second);
  });
}

}  // namespace lacuna
