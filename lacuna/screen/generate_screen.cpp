#include "lacuna/screen/generate_screen.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/graph/csr.h"

namespace lacuna {
namespace {

// Streams of random numbers, apart from those of generate_graph(); from kSampleStream on, one per
// sample.
constexpr uint64_t kDesignStream = 2000, kGeneEffectStream = 2001, kPairEffectStream = 2002,
                   kModuleEffectStream = 2003, kSampleStream = uint64_t(1) << 32;
constexpr uint32_t kMostRemoved = 16;
constexpr uint64_t kTaskSamples = 4096;  // samples per task
constexpr uint64_t kBlocksPerStep = 64;  // tasks between two reports of progress

struct QueryPair {
  uint32_t first, second;
  // Its n-th sample takes others[(start + n * stride) % others.size()]; the stride has no common
  // factor with that size, so that none comes again before all have come.
  uint64_t start, stride;
};

struct Design {
  std::vector<QueryPair> pairs;
  std::vector<uint32_t> others;  // genes of no pair, shuffled
};

// What makes up the labels, before and after scaling.
struct Parts {
  explicit Parts(uint64_t samples)
      : gene(samples), pair(samples), graph(samples), module(samples), noise(samples) {}
  std::vector<float> gene, pair, graph, module, noise;  // [S] each
};

void check(const GenerateOptions& options) {
  if (options.removed < 2 || options.removed > kMostRemoved)
    throw UsageError("{} removed genes a sample; give 2 (a pair) to {}", options.removed,
                     kMostRemoved);
  if (options.samples > UINT32_MAX / options.removed)
    throw UsageError("{} samples are too many; give at most {}", options.samples,
                     UINT32_MAX / options.removed);
  double sum = 0;
  for (const double share : {options.share_gene, options.share_pair, options.share_graph,
                             options.share_module, options.share_noise}) {
    if (!(share >= 0) || !std::isfinite(share))
      throw UsageError("a share of the variance is {}; give numbers from 0", share);
    sum += share;
  }
  if (sum == 0) throw UsageError("all shares of the variance are 0; give at least one above");
  if (options.share_module > 0 && options.modules < 2)
    throw UsageError("modules have a share of the variance, but there are {}; give at least 2",
                     options.modules);
  if (options.removed == 2 && options.query_pairs > 0)
    throw UsageError(
        "{} query pairs of samples that remove two genes, where no pair comes twice; remove three "
        "or more genes, or give 0",
        options.query_pairs);
  std::vector<std::string> names;
  for (const GeneEdgeCounts& type : size_of(options.size).types) names.push_back(type.name);
  std::sort(names.begin(), names.end());
  if (std::find(names.begin(), names.end(), options.interaction_type) == names.end())
    throw UsageError("no gene-gene edge type '{}' at size {}; there are: {}",
                     options.interaction_type, name(options.size), fmt::join(names, ", "));
}

uint64_t usual_pairs(GraphSize size) {
  switch (size) {
    case GraphSize::tiny:
      return 20;
    case GraphSize::mini:
    case GraphSize::small:
      return 100;
    case GraphSize::yeast:
    case GraphSize::human:
      return 420;
  }
  LACUNA_ASSERT(false);
  return 0;
}

// The usual number of pairs, or, where that is more, twice what keeps the samples distinct.
uint64_t default_pairs(const GenerateOptions& options, uint64_t other_genes) {
  return std::max(usual_pairs(options.size), 2 * options.samples / other_genes + 1);
}

// Samples of two genes: every sample a pair of its own, of any genes.
Design make_pairs(const GenerateOptions& options, uint32_t gene_count) {
  const uint64_t most = uint64_t(gene_count) * (gene_count - 1) / 4;  // so that new ones are found
  if (options.samples > most)
    throw UsageError("{} samples of two genes are too many at size {}; give at most {}",
                     options.samples, name(options.size), most);
  Random random(options.seed, kDesignStream);
  Design design;
  std::set<std::pair<uint32_t, uint32_t>> there;
  while (design.pairs.size() < options.samples) {
    const auto a = uint32_t(random.below(gene_count)), b = uint32_t(random.below(gene_count));
    if (a < b && there.emplace(a, b).second) design.pairs.push_back({a, b, 0, 0});
  }
  return design;
}

// Two query genes for three pairs, at most a quarter of the genes.
Design make_design(const GenerateOptions& options, uint32_t gene_count) {
  if (options.removed == 2) return make_pairs(options, gene_count);
  Random random(options.seed, kDesignStream);
  std::vector<uint32_t> genes = shuffled(gene_count, random);
  const uint64_t most_query_genes = gene_count / 4;
  const uint64_t most_pairs = most_query_genes * (most_query_genes - 1) / 2;
  if (options.query_pairs > most_pairs)
    throw UsageError("{} query pairs are too many at size {}; give at most {}", options.query_pairs,
                     name(options.size), most_pairs);
  const uint64_t pair_count =
      options.query_pairs > 0
          ? options.query_pairs
          : std::min(most_pairs, default_pairs(options, gene_count - most_query_genes));
  uint64_t query_genes = std::clamp<uint64_t>(pair_count * 2 / 3, 3, most_query_genes);
  while (query_genes * (query_genes - 1) / 2 < pair_count) ++query_genes;  // of few pairs
  Design design;
  design.others.assign(genes.begin() + std::ptrdiff_t(query_genes), genes.end());
  const uint64_t other_count = design.others.size();
  if (options.samples > pair_count * other_count)
    throw UsageError(
        "{} samples of {} query pairs and {} other genes would repeat; give at most {}"
        " samples, more query pairs or a larger size",
        options.samples, pair_count, other_count, pair_count * other_count);
  std::set<std::pair<uint32_t, uint32_t>> there;
  while (design.pairs.size() < pair_count) {
    const uint32_t a = genes[random.below(query_genes)], b = genes[random.below(query_genes)];
    if (a >= b || !there.emplace(a, b).second) continue;
    uint64_t stride = 1 + random.below(other_count);
    while (std::gcd(stride, other_count) != 1) ++stride;
    design.pairs.push_back({a, b, random.below(other_count), stride});
  }
  return design;
}

// The genes that sample s removes, all different: the query pair first.
void draw_removed(const Design& design, uint64_t s, std::span<uint32_t> removed, Random& random) {
  const QueryPair& pair = design.pairs[s % design.pairs.size()];
  const uint64_t n = s / design.pairs.size(), other_count = design.others.size();
  removed[0] = pair.first;
  removed[1] = pair.second;
  if (removed.size() == 2) return;
  removed[2] = design.others[(pair.start + n * pair.stride) % other_count];
  for (size_t i = 3; i < removed.size();) {
    removed[i] = design.others[random.below(other_count)];
    const auto end = removed.begin() + std::ptrdiff_t(i);
    i += std::find(removed.begin(), end, removed[i]) == end;
  }
}

// Kept genes with two or more removed in-neighbours. `seen` [genes] is all zero before and after.
// Removed genes and edges are distinct, so each edge that reaches a gene is another in-neighbour.
uint32_t count_shared_targets(const Csr& by_source, std::span<const uint32_t> removed,
                              std::vector<uint8_t>& seen) {
  uint32_t count = 0;
  for (const uint32_t gene : removed)
    for (const uint32_t target : by_source.neighbours(gene)) count += ++seen[target] == 2;
  for (const uint32_t gene : removed) count -= seen[gene] >= 2;
  for (const uint32_t gene : removed)
    for (const uint32_t target : by_source.neighbours(gene)) seen[target] = 0;
  return count;
}

std::vector<float> draw_effects(uint64_t count, Random random) {
  std::vector<float> effects(count);
  for (float& effect : effects) effect = float(random.normal());
  return effects;
}

struct Source {
  Design design;
  Csr by_source;  // of the interaction type
  std::vector<float> gene_effects,
      pair_effects;                   // [genes], [query pairs]; none: no pair comes twice
  std::vector<float> module_effects;  // [modules, modules], of which a <= b is used
  uint32_t modules;
};

// The mean over the sample's pairs of the effect of their two modules.
float module_part(const Source& source, std::span<const uint32_t> removed) {
  if (source.modules == 0) return 0;
  double sum = 0;
  for (size_t i = 0; i < removed.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const uint32_t a = removed[i] % source.modules, b = removed[j] % source.modules;
      sum += source.module_effects[std::min(a, b) * source.modules + std::max(a, b)];
    }
  return float(sum * 2 / double(removed.size() * (removed.size() - 1)));
}

// Fills `removed` [S, k] and the unscaled parts.
void draw_samples(const GenerateOptions& options, const Source& source,
                  std::vector<uint16_t>& removed, Parts& parts, Progress& progress) {
  const uint32_t k = options.removed;
  const auto draw_block = [&](uint64_t block) {
    std::vector<uint8_t> seen(source.by_source.rows(), 0);
    std::array<uint32_t, kMostRemoved> buffer;
    const std::span<uint32_t> genes(buffer.data(), k);
    const uint64_t end = std::min(options.samples, (block + 1) * kTaskSamples);
    for (uint64_t s = block * kTaskSamples; s < end; ++s) {
      Random random(options.seed, kSampleStream + s);
      draw_removed(source.design, s, genes, random);
      double sum = 0;
      for (const uint32_t gene : genes) sum += source.gene_effects[gene];
      parts.gene[s] = float(sum);
      if (!source.pair_effects.empty())
        parts.pair[s] = source.pair_effects[s % source.design.pairs.size()];
      parts.graph[s] = -float(count_shared_targets(source.by_source, genes, seen));
      parts.module[s] = module_part(source, genes);
      parts.noise[s] = float(random.normal());
      std::copy(genes.begin(), genes.end(), removed.begin() + std::ptrdiff_t(s * k));
    }
  };
  const uint64_t blocks = (options.samples + kTaskSamples - 1) / kTaskSamples;
  progress.begin("drawing samples", options.samples, "samples");
  for (uint64_t first = 0; first < blocks; first += kBlocksPerStep) {
    parallel_for(std::min(kBlocksPerStep, blocks - first), 0,
                 [&](uint64_t b) { draw_block(first + b); });
    progress.advance(std::min(options.samples, (first + kBlocksPerStep) * kTaskSamples));
  }
  progress.end();
}

struct Moments {
  double mean = 0, sd = 0;
};

template <class Value>
Moments moments(uint64_t count, Value value) {
  if (count == 0) return {};
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < count; ++i) sum += value(i);
  const double mean = sum / double(count);
  for (uint64_t i = 0; i < count; ++i) squares += (value(i) - mean) * (value(i) - mean);
  return {mean, std::sqrt(squares / double(count))};
}

// To mean 0 and this sd; a part that does not vary becomes 0.
void rescale(std::vector<float>& part, double sd) {
  const Moments now = moments(part.size(), [&](uint64_t i) { return double(part[i]); });
  const double factor = now.sd > 0 ? sd / now.sd : 0;
  for (float& value : part) value = float((value - now.mean) * factor);
}

// Scales the parts to their shares and their sum to the sd of the labels, and adds them up.
std::vector<float> make_labels(const GenerateOptions& options, Parts& parts) {
  rescale(parts.gene, std::sqrt(options.share_gene));
  rescale(parts.pair, std::sqrt(options.share_pair));
  rescale(parts.graph, std::sqrt(options.share_graph));
  rescale(parts.module, std::sqrt(options.share_module));
  rescale(parts.noise, std::sqrt(options.share_noise));
  const uint64_t count = parts.gene.size();
  const Moments sum = moments(count, [&](uint64_t s) {
    return double(parts.gene[s]) + parts.pair[s] + parts.graph[s] + parts.module[s] +
           parts.noise[s];
  });
  const double factor = sum.sd > 0 ? kLabelSd / sum.sd : 0;
  std::vector<float> labels(count);
  for (uint64_t s = 0; s < count; ++s) {
    for (auto* part : {&parts.gene, &parts.pair, &parts.graph, &parts.module, &parts.noise})
      (*part)[s] = float((*part)[s] * factor);
    const double known =
        kLabelMean + parts.gene[s] + parts.pair[s] + parts.graph[s] + parts.module[s];
    parts.noise[s] =
        float(std::clamp(double(parts.noise[s]), kLabelMin - known, kLabelMax - known));
    labels[s] = float(known + parts.noise[s]);
  }
  return labels;
}

Column pair_column(const Design& design, const Names& genes, uint64_t samples) {
  std::vector<uint32_t> codes(samples);
  for (uint64_t s = 0; s < samples; ++s) codes[s] = uint32_t(s % design.pairs.size());
  std::vector<std::string> names;
  for (const QueryPair& pair : design.pairs)
    names.push_back(genes[pair.first] + "+" + genes[pair.second]);
  return make_category_column("query_pair", codes, std::move(names));
}

Array make_ptr(uint64_t samples, uint32_t removed) {
  std::vector<uint32_t> ptr(samples + 1);
  for (uint64_t s = 0; s <= samples; ++s) ptr[s] = uint32_t(s * removed);
  return Array::from(std::move(ptr));
}

}  // namespace

uint64_t default_samples(GraphSize size) {
  switch (size) {
    case GraphSize::tiny:
      return 200;
    case GraphSize::mini:
      return 3'000;
    case GraphSize::small:
      return 20'000;
    case GraphSize::yeast:
    case GraphSize::human:
      return 332'313;
  }
  LACUNA_ASSERT(false);
  return 0;
}

GeneratedScreen generate_screen(const GenerateOptions& options, Progress& progress) {
  check(options);
  const uint32_t modules = options.share_module > 0 ? options.modules : 0;
  HeteroGraph graph = generate_graph(options.size, options.seed, options.interaction_type, modules);
  const Names& genes = graph.genes().names;
  LACUNA_ASSERT(genes.size() <= 65'536);  // removed genes are stored as u16
  Source source;
  source.design = make_design(options, genes.size());
  source.by_source =
      csr_by_source(graph, graph.edges("gene." + options.interaction_type + ".gene"));
  source.gene_effects = draw_effects(genes.size(), Random(options.seed, kGeneEffectStream));
  if (options.removed > 2)
    source.pair_effects =
        draw_effects(source.design.pairs.size(), Random(options.seed, kPairEffectStream));
  source.modules = modules;
  source.module_effects =
      draw_effects(uint64_t(modules) * modules, Random(options.seed, kModuleEffectStream));

  std::vector<uint16_t> removed(options.samples * options.removed);
  Parts parts(options.samples);
  draw_samples(options, source, removed, parts, progress);

  Samples samples;
  samples.removed = Array::from(std::move(removed));
  samples.ptr = make_ptr(options.samples, options.removed);
  samples.labels = Array::from(make_labels(options, parts));
  samples.label_names = {"gene_interaction"};
  const auto add = [&](const char* part, std::vector<float> values) {
    samples.columns.push_back({part, Array::from(std::move(values)), {}});
  };
  if (options.removed > 2)
    samples.columns.push_back(pair_column(source.design, genes, options.samples));
  add("truth_gene", std::move(parts.gene));
  if (options.removed > 2) add("truth_pair", std::move(parts.pair));
  add("truth_graph", std::move(parts.graph));
  if (modules > 0) add("truth_module", std::move(parts.module));
  add("truth_noise", std::move(parts.noise));
  return {std::move(graph), std::move(samples)};
}

Json to_json(const GenerateOptions& options) {
  Json json = {{"size", name(options.size)},
               {"samples", options.samples},
               {"seed", options.seed},
               {"removed", options.removed},
               {"query_pairs", options.query_pairs},
               {"interaction_type", options.interaction_type},
               {"share_gene", options.share_gene}};
  if (options.removed > 2) json["share_pair"] = options.share_pair;  // of two no pair comes twice
  json["share_graph"] = options.share_graph;
  if (options.share_module > 0) {
    json["modules"] = options.modules;
    json["share_module"] = options.share_module;
  }
  json["share_noise"] = options.share_noise;
  return json;
}

}  // namespace lacuna
