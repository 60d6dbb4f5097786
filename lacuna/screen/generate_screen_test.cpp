#include "lacuna/screen/generate_screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

const Column& column(const Samples& samples, std::string_view name) {
  for (const Column& column : samples.columns)
    if (column.name == name) return column;
  throw Error("no column {}", name);
}

std::span<const float> numbers(const Samples& samples, const std::string& name) {
  return column(samples, name).values.as<float>();
}

std::vector<uint32_t> removed_of(const Samples& samples, uint64_t sample) {
  const auto ptr = samples.ptr.as<uint32_t>();
  const auto removed = samples.removed.as<uint16_t>();
  return {removed.begin() + ptr[sample], removed.begin() + ptr[sample + 1]};
}

double mean(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / double(values.size());
}

double variance(std::span<const float> values) {
  const double centre = mean(values);
  double sum = 0;
  for (const float value : values) sum += (value - centre) * (value - centre);
  return sum / double(values.size());
}

bool same_samples(const Samples& a, const Samples& b) {
  const auto same = [](const Array& x, const Array& y) {
    return std::ranges::equal(x.bytes(), y.bytes());
  };
  if (!same(a.removed, b.removed) || !same(a.ptr, b.ptr) || !same(a.labels, b.labels)) return false;
  for (size_t c = 0; c < a.columns.size(); ++c)
    if (!same(a.columns[c].values, b.columns[c].values)) return false;
  return true;
}

// Relative path and bytes of every file below a directory.
std::map<std::string, std::string> files_below(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), directory).string()] = read_text(entry.path());
  return files;
}

TEST(GenerateScreen, SamplesRemoveAQueryPairAndOneMoreGene) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const auto made = generate_screen({.size = GraphSize::small, .samples = 20'000, .seed = seed});
  const Samples& samples = made.samples;
  ASSERT_EQ(samples.size(), 20'000u);
  const Column& pair = column(samples, "query_pair");
  EXPECT_EQ(pair.categories.size(), 100u);
  std::set<uint32_t> query_genes, other_genes;
  std::set<std::vector<uint32_t>> distinct;
  std::vector<uint64_t> uses(pair.categories.size(), 0);
  const Names& names = made.graph.genes().names;
  for (uint64_t s = 0; s < samples.size(); ++s) {
    auto removed = removed_of(samples, s);
    ASSERT_EQ(removed.size(), 3u);
    const uint32_t code = pair.code(s).value();
    ASSERT_EQ(pair.categories[code], names[removed[0]] + "+" + names[removed[1]]);
    ++uses[code];
    query_genes.insert({removed[0], removed[1]});
    other_genes.insert(removed[2]);
    std::sort(removed.begin(), removed.end());
    distinct.insert(removed);
  }
  EXPECT_EQ(distinct.size(), samples.size());
  for (const uint64_t count : uses) EXPECT_EQ(count, 200u);  // every pair recurs
  EXPECT_LT(query_genes.size(), 150u);                       // pairs share genes
  EXPECT_GT(other_genes.size(), 900u);
  for (const uint32_t gene : query_genes) EXPECT_FALSE(other_genes.contains(gene));
}

TEST(GenerateScreen, SamplesOfTwoGenesAreDistinctPairsOfAnyGenes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const auto made =
      generate_screen({.size = GraphSize::tiny, .samples = 390, .seed = seed, .removed = 2});
  std::set<std::vector<uint32_t>> distinct;
  std::set<uint32_t> genes;
  for (uint64_t s = 0; s < 390; ++s) {
    auto removed = removed_of(made.samples, s);
    std::sort(removed.begin(), removed.end());
    ASSERT_EQ(removed.size(), 2u);
    ASSERT_NE(removed[0], removed[1]);
    genes.insert(removed.begin(), removed.end());
    distinct.insert(removed);
  }
  EXPECT_EQ(distinct.size(), 390u);
  EXPECT_EQ(genes.size(), 40u);
  for (const Column& one : made.samples.columns)
    EXPECT_TRUE(one.name != "query_pair" && one.name != "truth_pair");
  EXPECT_ERROR(generate_screen({.size = GraphSize::tiny, .samples = 391, .removed = 2}),
               "391 samples of two genes are too many at size tiny; give at most 390");
}

// The same value for all pairs of genes of the same two modules, in either order.
TEST(GenerateScreen, ModulePartIsAnEffectOfTwoModules) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const auto made = generate_screen({.size = GraphSize::mini,
                                     .samples = 3'000,
                                     .seed = seed,
                                     .removed = 2,
                                     .modules = 5,
                                     .share_gene = 1,
                                     .share_graph = 0,
                                     .share_module = 2,
                                     .share_noise = 1});
  const auto part = numbers(made.samples, "truth_module");
  std::map<std::pair<uint32_t, uint32_t>, float> of_modules;
  std::set<float> values;
  for (uint64_t s = 0; s < 3'000; ++s) {
    const auto removed = removed_of(made.samples, s);
    const uint32_t a = removed[0] % 5, b = removed[1] % 5;
    ASSERT_EQ(of_modules.emplace(std::pair(std::min(a, b), std::max(a, b)), part[s]).first->second,
              part[s])
        << "sample " << s;
    values.insert(part[s]);
  }
  EXPECT_EQ(of_modules.size(), 15u);
  EXPECT_EQ(values.size(), 15u);
  EXPECT_NEAR(variance(part) / variance(numbers(made.samples, "truth_gene")), 2, 0.01);
  const auto without = generate_screen({.size = GraphSize::tiny, .samples = 100, .seed = seed});
  for (const Column& one : without.samples.columns) EXPECT_NE(one.name, "truth_module");
}

TEST(GenerateScreen, LabelsHaveTheStatedMomentsAndParts) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const auto made = generate_screen({.size = GraphSize::small,
                                     .samples = 30'000,
                                     .seed = seed,
                                     .share_gene = 1,
                                     .share_pair = 2,
                                     .share_graph = 3,
                                     .share_noise = 4});
  const auto labels = made.samples.labels.as<float>();
  EXPECT_NEAR(mean(labels), kLabelMean, 1e-5);
  EXPECT_NEAR(std::sqrt(variance(labels)), kLabelSd, 2e-4);  // clipping may take a little
  const auto gene = numbers(made.samples, "truth_gene"), pair = numbers(made.samples, "truth_pair"),
             graph = numbers(made.samples, "truth_graph"),
             noise = numbers(made.samples, "truth_noise");
  for (uint64_t s = 0; s < labels.size(); ++s) {
    const double sum = kLabelMean + gene[s] + pair[s] + graph[s] + noise[s];
    ASSERT_NEAR(labels[s], sum, 2e-7) << "sample " << s;
    ASSERT_GE(labels[s], float(kLabelMin));
    ASSERT_LE(labels[s], float(kLabelMax));
  }
  EXPECT_NEAR(variance(pair) / variance(gene), 2, 0.01);
  EXPECT_NEAR(variance(graph) / variance(gene), 3, 0.01);
  EXPECT_NEAR(variance(noise) / variance(gene), 4, 0.05);
  for (const auto part : {gene, pair, graph, noise}) EXPECT_NEAR(mean(part), 0, 1e-5);
}

// Kept genes with two or more different removed in-neighbours, by a loop over all edges.
uint32_t count_by_looking(const EdgeType& edges, uint32_t genes,
                          const std::vector<uint32_t>& removed) {
  const auto sources = edges.sources(), targets = edges.targets();
  const auto is_removed = [&](uint32_t gene) {
    return std::find(removed.begin(), removed.end(), gene) != removed.end();
  };
  uint32_t count = 0;
  for (uint32_t gene = 0; gene < genes; ++gene) {
    if (is_removed(gene)) continue;
    std::set<uint32_t> removed_neighbours;
    for (size_t e = 0; e < sources.size(); ++e)
      if (targets[e] == gene && is_removed(sources[e])) removed_neighbours.insert(sources[e]);
    count += removed_neighbours.size() >= 2;
  }
  return count;
}

// The graph part falls by the same amount for each such gene; the other parts follow from the
// removed genes and the pair alone.
TEST(GenerateScreen, PartsFollowFromTheSample) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const std::string type : {"physical", "regulatory", "coexpression"}) {
    for (const uint32_t removed_genes : {3u, 5u}) {
      SCOPED_TRACE(type);
      const auto made = generate_screen({.size = GraphSize::tiny,
                                         .samples = 200,
                                         .seed = seed,
                                         .removed = removed_genes,
                                         .interaction_type = type});
      const EdgeType& edges = made.graph.edges("gene." + type + ".gene");
      const auto graph = numbers(made.samples, "truth_graph");
      const auto pair = numbers(made.samples, "truth_pair");
      std::map<uint32_t, float> part_of_count, part_of_pair;
      for (uint64_t s = 0; s < 200; ++s) {
        const auto removed = removed_of(made.samples, s);
        ASSERT_EQ(std::set<uint32_t>(removed.begin(), removed.end()).size(), removed_genes);
        const uint32_t count = count_by_looking(edges, 40, removed);
        const auto known = part_of_count.emplace(count, graph[s]).first;
        ASSERT_EQ(known->second, graph[s]) << "sample " << s << ", count " << count;
        const uint32_t code = column(made.samples, "query_pair").code(s).value();
        ASSERT_EQ(part_of_pair.emplace(code, pair[s]).first->second, pair[s]);
      }
      ASSERT_GT(part_of_count.size(), 1u) << "an interaction that never varies";
      const auto [low, high] = std::pair(*part_of_count.begin(), *part_of_count.rbegin());
      const double slope = (high.second - low.second) / (double(high.first) - low.first);
      EXPECT_LT(slope, 0);
      for (const auto& [count, part] : part_of_count)
        EXPECT_NEAR(part, low.second + slope * (double(count) - low.first), 1e-6);
    }
  }
}

// Gene parts are sums of one effect per gene: samples that share a pair differ by the third gene's
// effect alone, and that difference is the same for every pair.
TEST(GenerateScreen, GenePartIsASumOfEffects) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const auto made =
      generate_screen({.size = GraphSize::tiny, .samples = 400, .seed = seed, .query_pairs = 20});
  const auto gene = numbers(made.samples, "truth_gene");
  std::map<std::pair<uint32_t, uint32_t>, double> part;  // by pair, third gene
  for (uint64_t s = 0; s < 400; ++s) part[{s % 20, removed_of(made.samples, s)[2]}] = gene[s];
  uint64_t compared = 0;
  for (const auto& [place, value] : part) {
    const auto& [pair, third] = place;
    for (uint32_t other = 0; other < 40; ++other) {
      if (!part.contains({0, third}) || !part.contains({0, other}) || !part.contains({pair, other}))
        continue;
      const double here = value - part[{pair, other}], there = part[{0, third}] - part[{0, other}];
      ASSERT_NEAR(here, there, 1e-6);
      ++compared;
    }
  }
  EXPECT_GT(compared, 100u);
}

TEST(GenerateScreen, SameOptionsSameSamplesWhateverTheThreads) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  GenerateOptions options = {.size = GraphSize::small, .samples = 30'000, .seed = seed};
  const auto made = generate_screen(options);
  ASSERT_EQ(::setenv("LACUNA_THREADS", "1", 1), 0);
  const auto one_thread = generate_screen(options);
  ::setenv("LACUNA_THREADS", "5", 1);
  const auto five_threads = generate_screen(options);
  ::unsetenv("LACUNA_THREADS");
  EXPECT_TRUE(same_samples(made.samples, one_thread.samples));
  EXPECT_TRUE(same_samples(made.samples, five_threads.samples));
  ++options.seed;
  EXPECT_FALSE(same_samples(made.samples, generate_screen(options).samples));
}

TEST(GenerateScreen, SameOptionsSameFiles) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& name, const GenerateOptions& options) {
    const auto made = generate_screen(options);
    const Screen screen =
        write_screen(directory / name, {made.graph, made.samples, {}, to_json(options)});
    screen.check(Progress::none());
    return files_below(directory / name);
  };
  const GenerateOptions options = {.size = GraphSize::tiny, .samples = 500, .seed = seed};
  const auto files = write("a", options);
  EXPECT_TRUE(files == write("b", options));
  GenerateOptions other = options;
  other.seed = seed + 1;
  for (const auto& [name, bytes] : write("c", other)) {
    const bool is_design = name.starts_with("nodes/") || name == "samples/ptr.npy" ||
                           name == "samples/query_pair.npy";  // these do not depend on the seed
    EXPECT_EQ(bytes == files.at(name), is_design) << name;
  }
}

TEST(GenerateScreen, AtYeastSizeTheInteractionIsThereInAUsefulShareOfSamples) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const auto made = generate_screen({.size = GraphSize::yeast, .samples = 20'000, .seed = seed});
  EXPECT_EQ(column(made.samples, "query_pair").categories.size(), 420u);
  const auto graph = numbers(made.samples, "truth_graph");
  const float none = *std::max_element(graph.begin(), graph.end());
  const auto without = std::count(graph.begin(), graph.end(), none);
  EXPECT_GT(without, 8'000);
  EXPECT_LT(without, 18'000);
}

TEST(GenerateScreen, FewSamplesAreFine) {
  const auto none = generate_screen({.size = GraphSize::tiny, .samples = 0});
  EXPECT_EQ(none.samples.size(), 0u);
  const auto one = generate_screen({.size = GraphSize::tiny, .samples = 1});
  EXPECT_FLOAT_EQ(one.samples.labels.as<float>()[0], float(kLabelMean));
}

TEST(GenerateScreen, ManySamplesGetMorePairsBeforeTheyRepeat) {
  const auto made = generate_screen({.size = GraphSize::tiny, .samples = 1'200});
  std::set<std::vector<uint32_t>> distinct;
  for (uint64_t s = 0; s < 1'200; ++s) distinct.insert(removed_of(made.samples, s));
  EXPECT_EQ(distinct.size(), 1'200u);
  EXPECT_ERROR(generate_screen({.size = GraphSize::tiny, .samples = 100'000}), "would repeat");
}

TEST(GenerateScreen, WhatIsKeptOfTheOptionsIsWhatItWasMadeOf) {
  GenerateOptions options = {.size = GraphSize::tiny, .samples = 10};
  EXPECT_FALSE(to_json(options).contains("modules"));
  EXPECT_FALSE(to_json(options).contains("share_module"));
  EXPECT_EQ(to_json(options).at("share_pair"), 0.2);
  options.removed = 2;
  options.share_module = 0.5;
  EXPECT_EQ(to_json(options).at("modules"), 10);
  EXPECT_EQ(to_json(options).at("share_module"), 0.5);
  EXPECT_FALSE(to_json(options).contains("share_pair"));
}

TEST(GenerateScreen, WrongOptionsAreNamed) {
  GenerateOptions good = {.size = GraphSize::tiny, .samples = 10};
  const auto expect_error = [&](auto change, const std::string& words) {
    GenerateOptions options = good;
    change(options);
    EXPECT_THROW(generate_screen(options), UsageError);
    EXPECT_ERROR(generate_screen(options), words);
  };
  expect_error([](auto& o) { o.removed = 1; }, "1 removed genes a sample; give 2 (");
  expect_error([](auto& o) { o.removed = 2, o.query_pairs = 5; }, "no pair comes twice");
  expect_error([](auto& o) { o.share_module = 1, o.modules = 1; }, "there are 1; give at least 2");
  expect_error([](auto& o) { o.share_module = 1, o.modules = 6; }, "give at most 5");
  expect_error([](auto& o) { o.share_module = -1; }, "is -1");
  expect_error([](auto& o) { o.removed = 17; }, "to 16");
  expect_error([](auto& o) { o.query_pairs = 1000; },
               "1000 query pairs are too many at size tiny; give at most 45");
  expect_error([](auto& o) { o.interaction_type = "magic"; },
               "'magic' at size tiny; there are: coexpression, physical, regulatory");
  expect_error([](auto& o) { o.share_noise = -1; }, "is -1");
  expect_error([](auto& o) { o.share_gene = std::nan(""); }, "is nan");
  expect_error([](auto& o) { o.share_gene = o.share_pair = o.share_graph = o.share_noise = 0; },
               "all shares");
  expect_error([](auto& o) { o.samples = 4'000'000'000; }, "too many");
}

TEST(GenerateScreen, MakesAnyNumberOfQueryPairs) {
  for (uint32_t pairs = 3; pairs <= 45; ++pairs) {
    const auto made =
        generate_screen({.size = GraphSize::tiny, .samples = 60, .seed = 5, .query_pairs = pairs});
    EXPECT_EQ(made.samples.size(), 60u) << pairs << " query pairs";
  }
}

}  // namespace
}  // namespace lacuna
