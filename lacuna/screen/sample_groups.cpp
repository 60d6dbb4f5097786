#include "lacuna/screen/sample_groups.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "lacuna/core/hash.h"
#include "lacuna/graph/removal.h"

namespace lacuna {
namespace {

// Calls f(pair) for every pair of these genes, the lower index in the upper half.
template <class F>
void for_each_pair(const std::vector<uint32_t>& genes, F&& f) {
  for (size_t i = 0; i < genes.size(); ++i)
    for (size_t j = i + 1; j < genes.size(); ++j) f(uint64_t(genes[i]) << 32 | genes[j]);
}

// Every pair that is removed together, and by how many samples.
struct PairCounts {
  std::vector<uint64_t> pairs;   // ascending
  std::vector<uint32_t> counts;  // of samples

  explicit PairCounts(GeneSets& sets) {
    std::vector<uint64_t> all;
    for (uint64_t s = 0; s < sets.size(); ++s)
      for_each_pair(sets.read(s), [&](uint64_t pair) { all.push_back(pair); });
    std::sort(all.begin(), all.end());
    for (const uint64_t pair : all) {
      if (pairs.empty() || pairs.back() != pair) {
        pairs.push_back(pair);
        counts.push_back(0);
      }
      ++counts.back();
    }
  }
  size_t find(uint64_t pair) const {
    return size_t(std::lower_bound(pairs.begin(), pairs.end(), pair) - pairs.begin());
  }
};

}  // namespace

const std::vector<uint32_t>& GeneSets::read(uint64_t sample) {
  reader_.read(sample, genes_);
  check_removed(genes_, sample, gene_count_);
  std::sort(genes_.begin(), genes_.end());
  genes_.erase(std::unique(genes_.begin(), genes_.end()), genes_.end());
  return genes_;
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

// Two samples that remove the same set of genes have the same key. (Different sets have different
// keys but for one chance in 2^64 a pair, and then they only share a part.)
void unite_repeats(const Screen& screen, SampleGroups& groups) {
  GeneSets sets(screen);
  std::vector<SampleGroups::Keyed> keyed(sets.size());
  for (uint64_t s = 0; s < sets.size(); ++s)
    keyed[s] = {hash64(std::as_bytes(std::span(sets.read(s)))), uint32_t(s)};
  groups.unite_equal_keys(std::move(keyed));
}

void unite_categories(const Column& column, SampleGroups& groups) {
  std::vector<SampleGroups::Keyed> keyed;
  for (uint64_t s = 0; s < column.values.size(); ++s)
    if (const auto code = column.code(s)) keyed.emplace_back(*code, uint32_t(s));
  groups.unite_equal_keys(std::move(keyed));
}

void unite_query_pairs(const Screen& screen, SampleGroups& groups) {
  GeneSets sets(screen);
  const PairCounts all(sets);
  std::vector<bool> is_query(all.pairs.size());
  for (uint64_t s = 0; s < sets.size(); ++s) {
    std::optional<size_t> best;
    for_each_pair(sets.read(s), [&](uint64_t pair) {
      const size_t at = all.find(pair);
      if (!best || all.counts[at] > all.counts[*best]) best = at;
    });
    if (best) is_query[*best] = true;
  }
  std::vector<SampleGroups::Keyed> keyed;
  for (uint64_t s = 0; s < sets.size(); ++s)
    for_each_pair(sets.read(s), [&](uint64_t pair) {
      const size_t at = all.find(pair);
      if (is_query[at]) keyed.emplace_back(at, uint32_t(s));
    });
  groups.unite_equal_keys(std::move(keyed));
}

}  // namespace lacuna
