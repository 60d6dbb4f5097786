#include "lacuna/screen/candidates.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/core/text/csv.h"

namespace lacuna {
namespace {

using GeneLists = std::vector<std::vector<uint32_t>>;

GeneLists all_of(Candidates& candidates) {
  GeneLists samples;
  std::vector<uint32_t> genes;
  while (candidates.next(genes)) samples.push_back(genes);
  EXPECT_EQ(samples.size(), candidates.size());
  EXPECT_FALSE(candidates.next(genes)) << "the end stays the end";
  size_t widest = 0;
  for (const auto& sample : samples) widest = std::max(widest, sample.size());
  if (!samples.empty()) {
    EXPECT_EQ(widest, candidates.widest());
  }
  return samples;
}

const Names& names() {
  static const Names genes({"YAL001C", "YAL002W", "YBR001C", "HO"});
  return genes;
}

GeneLists read(const std::string& text) {
  const TemporaryDirectory folder;
  write_file(folder / "samples.csv", text);
  return all_of(*listed_samples(folder / "samples.csv", names()));
}

std::string error_in(const std::string& text) {
  return error_of([&] { read(text); });
}

TEST(Candidates, GenesAreFoundByAnyOfTheirNames) {
  Names called({"YAL001C", "YAL002W", "HO"});
  called.add_alias("TFC3", 0);
  called.add_alias("VPS8", 1);
  const TemporaryDirectory folder;
  write_file(folder / "s.txt",
             "VPS8 (YAL002W) tfc3\nHO, VPS8 (YAL002W)\nYAL001C VPS8\n\"VPS8 (YAL002W)\"\n");
  EXPECT_EQ(all_of(*listed_samples(folder / "s.txt", called)),
            (GeneLists{{1, 0}, {2, 1}, {0, 1}, {1}}));
  EXPECT_ERROR(find_gene(called, "VSP8", "here"),
               "here: there is no gene 'VSP8'; did you mean 'VPS8 (YAL002W)'?");
}

TEST(Candidates, AllPairs) {
  for (const uint32_t genes : {0u, 1u, 2u, 3u, 17u}) {
    GeneLists expected;
    for (uint32_t a = 0; a < genes; ++a)
      for (uint32_t b = a + 1; b < genes; ++b) expected.push_back({a, b});
    EXPECT_EQ(all_of(*all_pairs(all_genes(genes))), expected) << genes;
  }
  EXPECT_EQ(all_pairs(all_genes(6607))->size(), 21'822'921u);
}

TEST(Candidates, AllTriplesWithOneGeneOrTwo) {
  for (const uint32_t genes : {3u, 4u, 11u})
    for (uint32_t given = 0; given < genes; ++given) {
      GeneLists expected;
      for (uint32_t a = 0; a < genes; ++a)
        for (uint32_t b = a + 1; b < genes; ++b)
          if (a != given && b != given) expected.push_back({given, a, b});
      EXPECT_EQ(all_of(*all_triples_with({{given}}, all_genes(genes))), expected);
    }
  EXPECT_EQ(all_of(*all_triples_with({{3, 1}}, all_genes(5))),
            (GeneLists{{3, 1, 0}, {3, 1, 2}, {3, 1, 4}}));
  EXPECT_TRUE(all_of(*all_triples_with({{0, 1}}, all_genes(2))).empty());
  EXPECT_TRUE(all_of(*all_triples_with({{0}}, all_genes(1))).empty());
  EXPECT_ERROR(all_triples_with({}, all_genes(5)), "one gene or two");
  EXPECT_ERROR(all_triples_with({{1, 2, 3}}, all_genes(5)), "one gene or two");
  EXPECT_ERROR(all_triples_with({{1, 1}}, all_genes(5)), "twice");
}

// By brute force: every pair that has a given gene and one of the pool, once.
TEST(Candidates, AllPairsWithGivenGenes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 50; ++round) {
    const uint32_t count = 2 + uint32_t(random.below(8));
    std::vector<uint32_t> pool, given = shuffled(count, random);
    for (uint32_t gene = 0; gene < count; ++gene)
      if (random.below(2) == 0) pool.push_back(gene);
    given.resize(1 + random.below(count));
    const auto has = [](const std::vector<uint32_t>& list, uint32_t gene) {
      return std::find(list.begin(), list.end(), gene) != list.end();
    };
    std::set<std::set<uint32_t>> expected;
    for (uint32_t a = 0; a < count; ++a)
      for (uint32_t b = 0; b < count; ++b)
        if (a != b && has(given, a) && has(pool, b)) expected.insert({a, b});
    const GeneLists found = all_of(*all_pairs_with(given, pool));
    std::set<std::set<uint32_t>> sets;
    for (const auto& pair : found) {
      EXPECT_TRUE(has(given, pair[0]));
      sets.insert({pair.begin(), pair.end()});
    }
    EXPECT_EQ(sets, expected);
    EXPECT_EQ(found.size(), expected.size());
  }
  EXPECT_EQ(all_of(*all_pairs_with({{2, 0}}, all_genes(3))), (GeneLists{{2, 0}, {2, 1}, {0, 1}}));
  EXPECT_ERROR(all_pairs_with({}, all_genes(3)), "no gene");
  EXPECT_ERROR(all_pairs_with({{1, 1}}, all_genes(3)), "twice");
}

TEST(Candidates, OthersFromAList) {
  EXPECT_EQ(all_of(*all_pairs({1, 4, 6})), (GeneLists{{1, 4}, {1, 6}, {4, 6}}));
  EXPECT_EQ(all_of(*all_triples_with({{4, 9}}, {1, 4, 6})), (GeneLists{{4, 9, 1}, {4, 9, 6}}));
  const TemporaryDirectory folder;
  write_file(folder / "genes.txt", "HO\nYAL002W # why\nHO\n");
  EXPECT_EQ(listed_genes(folder / "genes.txt", names()), (std::vector<uint32_t>{1, 3}));
  write_file(folder / "wrong.txt", "HO\nYAL02W\n");
  EXPECT_ERROR(listed_genes(folder / "wrong.txt", names()), "wrong.txt:2: there is no gene");
}

TEST(Candidates, UnmeasuredLeavesOutWhatTheScreenHas) {
  SampleBuilder builder(4, {"fitness", "other"});
  const auto add = [&](std::vector<uint32_t> genes, float fitness, float other) {
    const float labels[] = {fitness, other};
    builder.add(genes, labels);
  };
  add({2, 0}, 1, NAN);
  add({1, 3, 1}, 1, 1);
  add({0, 1}, NAN, 1);  // there, but its fitness was not measured
  add({0, 2, 3}, 1, 1);
  const Samples samples = builder.finish();
  const auto left = [&](std::vector<uint64_t> labels) {
    return all_of(
        *unmeasured([] { return all_pairs(all_genes(4)); }, MeasuredSets(samples, 4, labels)));
  };
  EXPECT_EQ(left({0}), (GeneLists{{0, 1}, {0, 3}, {1, 2}, {2, 3}}));
  EXPECT_EQ(left({1}), (GeneLists{{0, 2}, {0, 3}, {1, 2}, {2, 3}}));
  EXPECT_EQ(left({0, 1}), (GeneLists{{0, 3}, {1, 2}, {2, 3}}));
  const auto half = shard_of(unmeasured([] { return all_pairs(all_genes(4)); },
                                        MeasuredSets(samples, 4, std::vector<uint64_t>{0})),
                             parse_shard("2/2"));
  EXPECT_EQ(all_of(*half), (GeneLists{{1, 2}, {2, 3}}));
}

TEST(Candidates, ListedInAFile) {
  EXPECT_EQ(read("YAL001C,HO\n"
                 "YAL002W\tYBR001C\n"
                 "HO YAL001C  YAL002W\n"
                 "\n"
                 "# a comment\n"
                 "  # another\n"
                 "-\n"
                 "\"HO\", \"YBR001C\" # why not\r\n"
                 "HO HO\n"
                 "YBR001C"),
            (GeneLists{{0, 3}, {1, 2}, {3, 0, 1}, {}, {3, 2}, {3}, {2}}));
  EXPECT_EQ(read("\xef\xbb\xbfHO\n"), (GeneLists{{3}}));
}

TEST(Candidates, ATableWithAHead) {
  EXPECT_EQ(read("gene_1,gene_2,gene_3,fitness\n"
                 "YAL001C,HO,,0.5\n"
                 ",,,-1\n"
                 "HO,HO,\"YBR001C\",nan\n"),
            (GeneLists{{0, 3}, {}, {3, 2}}));
  EXPECT_EQ(read("\xef\xbb\xbf\"gene_1\",\"a, b\"\r\nHO,1\r\n"), (GeneLists{{3}}));
  EXPECT_EQ(read("gene_1\tx\tgene_2\nHO\tYAL001C\tYAL002W\n"), (GeneLists{{3}}));  // x ends them
  EXPECT_EQ(read("gene_1\nHO\n"), (GeneLists{{3}}));
  EXPECT_NE(error_in("gene_1,fitness\nHO,1\nOH,1\n").find(":3: there is no gene 'OH'"),
            std::string::npos);
  EXPECT_NE(error_in("gene_1,fitness\n").find("no samples behind its head"), std::string::npos);
  EXPECT_NE(error_in("gene_1,fitness\nHO\n").find("samples.csv:2"), std::string::npos);
  EXPECT_NE(error_in("gene_12,HO\n").find("no gene 'gene_12'"), std::string::npos);
  // Where a gene is called gene_1, the line is a sample.
  const TemporaryDirectory folder;
  const Names called({"gene_1", "gene_2"});
  write_file(folder / "samples.csv", "gene_1,gene_2\ngene_2\n");
  EXPECT_EQ(all_of(*listed_samples(folder / "samples.csv", called)), (GeneLists{{0, 1}, {1}}));
}

// In quotes a name may hold what otherwise ends it.
TEST(Candidates, AnyNameInQuotes) {
  const TemporaryDirectory folder;
  const Names odd({"a,b", "c d", "#e", "f\"g", "h", "\t"});
  const auto read = [&](const std::string& text) {
    write_file(folder / "samples.csv", text);
    return all_of(*listed_samples(folder / "samples.csv", odd));
  };
  EXPECT_EQ(read("\"a,b\",\"c d\" h\n\"#e\"\th #e\n\"f\"\"g\"\r\nf\"g,\"\t\""),
            (GeneLists{{0, 1, 4}, {2, 4}, {3}, {3, 5}}));
  EXPECT_ERROR(read("h\n\"a,b"), "samples.csv:2: a quote begins and does not end");
  EXPECT_ERROR(read("\"h\"h"), "samples.csv:1: something stands right behind \"h\"");
}

TEST(Candidates, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(error_in("HO\n\nyal02w HO\n").substr(error_in("x").find("samples.csv")),
            "samples.csv:3: there is no gene 'yal02w'; did you mean 'YAL002W'?");
  EXPECT_NE(error_in("HO -\n").find(":1: '-' means"), std::string::npos);
  EXPECT_NE(error_in("# nothing\n\n").find("no samples"), std::string::npos);
  EXPECT_ERROR(listed_samples("/nowhere/samples", names()), "/nowhere/samples");
  const TemporaryDirectory folder;
  EXPECT_ERROR(listed_samples(folder.path(), names()), "not a regular file");
}

// Names that spreadsheets take for formulas, as predict writes them and as people do.
TEST(Candidates, AnApostropheBeforeASignIsTakenOff) {
  const TemporaryDirectory folder;
  const Names odd({"=1+2", "'=1+2", "-", "-omega", "'tis", "@x"});
  const auto read = [&](const std::string& text) {
    write_file(folder / "samples.csv", text);
    return all_of(*listed_samples(folder / "samples.csv", odd));
  };
  const GeneLists expected = {{0, 1}, {2, 3}, {4, 5}};
  EXPECT_EQ(read("'=1+2,''=1+2\n'-,'-omega\n'tis '@x\n"), expected);
  EXPECT_EQ(read("=1+2,\"''=1+2\"\n-,-omega\n'tis,@x\n"), expected);  // - is a gene here
  std::string table = "gene_1,gene_2\n";
  for (const auto& sample : expected)
    table += csv_cell(odd[sample[0]]) + "," + csv_cell(odd[sample[1]]) + "\n";
  EXPECT_EQ(read(table), expected);
  const Names without({"a", "-b"});
  write_file(folder / "samples.csv", "-\n'-b\n");
  EXPECT_EQ(all_of(*listed_samples(folder / "samples.csv", without)), (GeneLists{{}, {1}}));
  write_file(folder / "samples.csv", "'-\n");  // a name, not the wild type
  EXPECT_ERROR(listed_samples(folder / "samples.csv", without), "there is no gene '-'");
}

TEST(Candidates, WhatIsNoListIsRefusedAtOnce) {
  const TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(listed_samples(folder / "pipe", names()), "not a regular file");
  write_file(folder / "long", "HO\n" + std::string(3 << 20, 'x') + "\n");
  EXPECT_ERROR(listed_samples(folder / "long", names()), "long:2: a line of over 1 MB");
}

}  // namespace
}  // namespace lacuna
