#include "lacuna/run/evaluation/apart/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {
namespace {

enum Unseen : uint8_t { kNone, kOne, kSeveral, kAll };

Unseen count_unseen(std::span<const uint32_t> genes, const std::vector<bool>& is_seen) {
  const auto unseen =
      std::count_if(genes.begin(), genes.end(), [&](uint32_t gene) { return !is_seen[gene]; });
  if (unseen == 0) return kNone;
  if (size_t(unseen) == genes.size()) return kAll;
  return unseen == 1 ? kOne : kSeveral;
}

// The lowest degree of each bin.
constexpr std::array<uint64_t, 7> kBins = {0, 1, 10, 30, 100, 300, 1000};

std::vector<std::string> bin_names() {
  std::vector<std::string> names = {"0"};
  for (size_t b = 1; b + 1 < kBins.size(); ++b)
    names.push_back(fmt::format("{} to {}", kBins[b], kBins[b + 1] - 1));
  names.push_back(fmt::format("{} or more", kBins.back()));
  return names;
}

uint8_t bin_of(uint64_t degree) {
  return uint8_t(std::upper_bound(kBins.begin(), kBins.end(), degree) - kBins.begin() - 1);
}

// How many different genes each unseen gene is linked to: [genes]; 0 for those that were seen.
std::vector<uint64_t> degrees_of_unseen(const HeteroGraph& graph,
                                        const std::vector<bool>& is_seen) {
  std::vector<std::vector<uint32_t>> links(is_seen.size());
  for (const EdgeType* edges : graph.gene_edges()) {
    const std::vector<uint32_t> sources = edges->sources(), targets = edges->targets();
    for (size_t e = 0; e < sources.size(); ++e) {
      if (sources[e] == targets[e]) continue;
      if (!is_seen[sources[e]]) links[sources[e]].push_back(targets[e]);
      if (!is_seen[targets[e]]) links[targets[e]].push_back(sources[e]);
    }
  }
  std::vector<uint64_t> degrees;
  for (auto& others : links) {
    std::sort(others.begin(), others.end());
    degrees.push_back(uint64_t(std::unique(others.begin(), others.end()) - others.begin()));
  }
  return degrees;
}

}  // namespace

std::vector<bool> seen_genes(const Samples& samples, uint32_t genes, const Split& split) {
  std::vector<bool> is_seen(genes, false);
  GeneSets sets(samples, genes);
  for (const uint64_t sample : samples_in(split, Part::train))
    for (const uint32_t gene : sets.read(sample)) is_seen[gene] = true;
  return is_seen;
}

std::vector<SampleGrouping> group_samples(const Samples& samples, const HeteroGraph& graph,
                                          const std::vector<bool>& is_seen,
                                          std::span<const uint64_t> chosen) {
  LACUNA_ASSERT(is_seen.size() == graph.genes().size());
  SampleGrouping unseen = {"unseen genes", {"none", "one", "several", "all"}, {}};
  SampleGrouping degree = {"degree", bin_names(), {}};
  const std::vector<uint64_t> degrees = degrees_of_unseen(graph, is_seen);
  GeneSets sets(samples, uint32_t(is_seen.size()));
  for (const uint64_t sample : chosen) {
    const auto& genes = sets.read(sample);
    unseen.group.push_back(count_unseen(genes, is_seen));
    uint8_t bin = SampleGrouping::kNone;
    for (const uint32_t gene : genes)
      if (!is_seen[gene]) bin = std::min(bin, bin_of(degrees[gene]));
    degree.group.push_back(bin);
  }
  const bool any = std::any_of(unseen.group.begin(), unseen.group.end(),
                               [](uint8_t group) { return group != kNone; });
  if (!any) return {};
  std::vector<SampleGrouping> groupings = {std::move(unseen)};
  if (!graph.gene_edges().empty()) groupings.push_back(std::move(degree));
  return groupings;
}

}  // namespace lacuna
