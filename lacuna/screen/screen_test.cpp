#include "lacuna/screen/screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"
#include "lacuna/store/testing.h"

namespace lacuna {
namespace {

class ScreenTest : public ::testing::Test {
 protected:
  ScreenTest() { RecordProperty("seed", std::to_string(seed_)); }
  Screen write(uint64_t count = 300) {
    const HeteroGraph graph = small_graph(seed_);
    const Samples samples = small_samples(seed_, count);
    return write_screen(path_, {graph, samples, {thirds_split(count)}, {{"command", "test"}}});
  }
  // Overwrites one element of a stored array; the manifest does not follow.
  template <class T>
  void poke(const std::string& file, uint64_t index, T value) {
    std::string bytes = read_text(path_ / file);
    const size_t data = bytes.find('\n') + 1;
    std::memcpy(bytes.data() + data + index * sizeof(T), &value, sizeof(T));
    write_file(path_ / file, bytes);
  }
  uint8_t other_gene(uint64_t edge) const {
    return uint8_t((small_graph(seed_).edges("gene.physical.gene").sources()[edge] + 1) % 40);
  }
  // Makes the checksums of the manifest agree with the files.
  void forge_checksums() {
    edit_manifest(path_, [&](Json& manifest) {
      for (auto& [file, entry] : manifest["files"].items())
        entry["xxh3"] = hex(hash_file(path_ / file));
    });
  }

  uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TemporaryDirectory directory_;
  fs::path path_ = directory_ / "screen";
};

void expect_same(const Array& a, const Array& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes()));
}

TEST_F(ScreenTest, AliasesAreAddedAndNothingElseChanges) {
  const Screen before = write();
  EXPECT_EQ(before.graph().genes().names.alias_count(), 0u);
  Names names = before.graph().genes().names;
  names.add_alias("first", 3);
  EXPECT_EQ(add_aliases(path_, names), 1u);
  EXPECT_EQ(add_aliases(path_, names), 0u);
  Names more(names.all());
  more.add_alias("second", 3);
  more.add_alias("third", 0);
  EXPECT_EQ(add_aliases(path_, more), 2u);
  const Screen after = Screen::open(path_);
  EXPECT_EQ(after.fingerprint().parts(), before.fingerprint().parts());
  EXPECT_EQ(after.directory().files().size(), before.directory().files().size() + 1);
  EXPECT_EQ(after.graph().genes().names.aliases(3), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(after.graph().genes().names.look_up("THIRD").index, 0u);
  // Only the files that the manifest names, and the two of the directory itself, are there.
  EXPECT_FALSE(fs::exists(path_ / "nodes/gene.aliases.txt"));
  // A new screen with this graph keeps them.
  const Screen copy = write_screen(directory_ / "copy", {after.graph(), after.samples(), {}, {}});
  EXPECT_EQ(copy.graph().genes().names.shown(3), "first (" + names[3] + ")");
}

TEST_F(ScreenTest, AliasesOfAnotherNumberOfGenesAreRefused) {
  const Screen screen = write();
  Names names = screen.graph().genes().names;
  names.add_alias("first", 3);
  add_aliases(path_, names);
  const std::string file = "nodes/gene.aliases.txt";
  write_file(path_ / file, read_text(path_ / file) + "x\n");
  EXPECT_ERROR(Screen::open(path_), file);
  edit_manifest(path_, [&](Json& manifest) {
    manifest["files"][file] = {{"bytes", fs::file_size(path_ / file)},
                               {"xxh3", hex(hash_file(path_ / file))}};
  });
  EXPECT_ERROR(Screen::open(path_), "has 41 lines, but there are 40 names");
}

TEST_F(ScreenTest, WhatWasWrittenComesBack) {
  const HeteroGraph graph = small_graph(seed_);
  const Samples samples = small_samples(seed_, 300);
  const Screen screen = write();
  EXPECT_NO_THROW(screen.check(Progress::none()));
  ASSERT_EQ(screen.graph().node_types().size(), graph.node_types().size());
  for (size_t t = 0; t < graph.node_types().size(); ++t) {
    EXPECT_EQ(screen.graph().node_types()[t].name, graph.node_types()[t].name);
    EXPECT_EQ(screen.graph().node_types()[t].names.all(), graph.node_types()[t].names.all());
  }
  expect_same(screen.graph().genes().features[0].values, graph.genes().features[0].values);
  ASSERT_EQ(screen.graph().edge_types().size(), graph.edge_types().size());
  for (size_t t = 0; t < graph.edge_types().size(); ++t) {
    EXPECT_EQ(screen.graph().edge_types()[t].key(), graph.edge_types()[t].key());
    expect_same(screen.graph().edge_types()[t].edges, graph.edge_types()[t].edges);
  }
  expect_same(screen.graph().edges("gene.weighted.gene").values[0].values,
              graph.edges("gene.weighted.gene").values[0].values);
  expect_same(screen.samples().removed, samples.removed);
  expect_same(screen.samples().ptr, samples.ptr);
  expect_same(screen.samples().labels, samples.labels);
  EXPECT_EQ(screen.samples().label_names, samples.label_names);
  for (const auto& column : samples.columns) {
    expect_same(screen.column(column.name).values, column.values);
    EXPECT_EQ(screen.column(column.name).categories, column.categories);
  }
  expect_same(screen.split("thirds").parts, thirds_split(300).parts);
  EXPECT_EQ(screen.split("thirds").how["by"], "test");
  EXPECT_EQ(screen.directory().manifest()["made_by"]["command"], "test");
  EXPECT_ERROR(screen.column("p"), "no column 'p'; there is sd, screen, plate");
  EXPECT_ERROR(screen.split("p"), "no split 'p'; there is thirds");
}

TEST_F(ScreenTest, ScreensOfNothingWork) {
  const HeteroGraph graph = small_graph(seed_);
  const Samples none = SampleBuilder(40, {"fitness"}).finish();
  const Screen screen = write_screen(path_, {graph, none, {}, {}});
  EXPECT_EQ(screen.samples().size(), 0u);
  EXPECT_NO_THROW(screen.check(Progress::none()));
  SampleBuilder wild_types(40, {});
  wild_types.add({}, {});
  wild_types.add({}, {});
  const Screen second = write_screen(directory_ / "second", {graph, wild_types.finish(), {}, {}});
  EXPECT_EQ(second.samples().size(), 2u);
  EXPECT_EQ(RemovedReader(second.samples()).count(1), 0u);
  EXPECT_NO_THROW(second.check(Progress::none()));
}

TEST_F(ScreenTest, TypesAreTheSmallestThatHold) {
  SampleBuilder small(65536, {"l"}), large(65537, {"l"});
  const float label = 0;
  const uint32_t last = 65535, beyond = 65536;
  small.add({&last, 1}, {&label, 1});
  large.add({&beyond, 1}, {&label, 1});
  EXPECT_EQ(small.finish().removed.dtype(), DType::u16);
  const Samples samples = large.finish();
  EXPECT_EQ(samples.removed.dtype(), DType::u32);
  EXPECT_EQ(samples.ptr.dtype(), DType::u32);
  EXPECT_EQ(RemovedReader(samples).at(0), 65536u);
}

TEST_F(ScreenTest, FourteenBytesASampleOfThree) {
  SampleBuilder builder(6607, {"l"});
  const uint32_t genes[] = {1, 2, 6606};
  const float label = 0;
  for (int s = 0; s < 1000; ++s) builder.add(genes, {&label, 1});
  const Samples samples = builder.finish();
  EXPECT_EQ(
      samples.removed.bytes().size() + samples.ptr.bytes().size() + samples.labels.bytes().size(),
      14u * 1000 + 4);
}

TEST_F(ScreenTest, AnIndexOutOfRangeIsNamed) {
  SampleBuilder builder(40, {"fitness"});
  const uint32_t good = 39, bad = 40;
  const float label = 0;
  builder.add({&good, 1}, {&label, 1});
  EXPECT_ERROR(builder.add({&bad, 1}, {&label, 1}), "sample 1 removes gene index 40");
  // Samples that were not checked are refused before anything is written.
  Samples samples = builder.finish();
  samples.removed = Array::from<uint16_t>({40});
  const HeteroGraph graph = small_graph(seed_);
  EXPECT_ERROR(write_screen(path_, {graph, samples, {}, {}}), "sample 0 removes gene index 40");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(ScreenTest, CheckFindsWhatOpenCannotSee) {
  const Screen screen = write();
  const auto said = [&] {
    const std::string words =
        error_of([&] { Screen::open_unchecked(path_).check(Progress::none()); });
    EXPECT_TRUE(words.starts_with(path_.string())) << words;
    return words;
  };
  const auto damaged = [&](auto damage) {
    fs::remove_all(path_);
    write();
    damage();
    EXPECT_NO_THROW(Screen::open_unchecked(path_));
    EXPECT_ERROR(Screen::open(path_), "its bytes have changed");
    EXPECT_NE(said().find("its bytes have changed"), std::string::npos);
    forge_checksums();
    EXPECT_EQ(error_of([&] { Screen::open(path_); }), said());
    return said();
  };
  EXPECT_NE(damaged([&] { poke<uint16_t>("samples/removed.npy", 3, 40); }).find("gene index 40"),
            std::string::npos);
  EXPECT_NE(damaged([&] { poke<uint16_t>("samples/removed.npy", 3, 65535); }).find("65535"),
            std::string::npos);
  EXPECT_NE(damaged([&] { poke<uint32_t>("samples/ptr.npy", 7, 0xfffffff0u); }).find("ptr"),
            std::string::npos);
  EXPECT_NE(damaged([&] { poke<uint8_t>("samples/screen.npy", 7, 77); }).find("code 77"),
            std::string::npos);
  EXPECT_NE(damaged([&] { poke<uint8_t>("splits/thirds.npy", 7, 3); }).find("part 3 at sample 7"),
            std::string::npos);
  EXPECT_NE(damaged([&] { poke<float>("samples/label.npy", 8, 77.0f); }).find("(label fitness)"),
            std::string::npos);
  // Other values that are just as valid as the right ones.
  const auto edges = [&] { poke<uint8_t>("edges/gene.physical.gene.npy", 5, other_gene(5)); };
  EXPECT_NE(damaged(edges).find("(edges gene.physical.gene)"), std::string::npos);
  EXPECT_NE(damaged([&] {
              poke<float>("nodes/gene.embedding.npy", 1, 77.0f);
            }).find("(features gene.embedding)"),
            std::string::npos);
}

TEST_F(ScreenTest, AFlippedBitOfAnyFileIsFoundByOpening) {
  const Screen screen = write();
  Random random(seed_);
  for (const auto& [file, entry] : screen.directory().files())
    for (int round = 0; round < 8; ++round) {
      const uint64_t byte = random.below(entry.bytes);
      const std::string whole = read_text(path_ / file);
      flip(path_ / file, byte, unsigned(random.below(8)));
      EXPECT_ERROR(Screen::open(path_), file + ": its bytes have changed");
      write_file(path_ / file, whole);
    }
  EXPECT_NO_THROW(Screen::open(path_));
}

// A split drawn from damaged samples must not become part of the screen.
TEST_F(ScreenTest, ADamagedScreenTakesNoSplit) {
  write();
  poke<float>("samples/label.npy", 8, 77.0f);
  const std::string before = read_text(path_ / "manifest.json");
  EXPECT_ERROR(add_split(path_, thirds_split(300, "late")), "label.npy: its bytes have changed");
  EXPECT_EQ(read_text(path_ / "manifest.json"), before);
  // A damaged split can be removed, and the rest stays as damaged as it was.
  EXPECT_EQ(remove_split(path_, "thirds").name, "thirds");
  EXPECT_ERROR(Screen::open(path_), "label.npy: its bytes have changed");
}

TEST_F(ScreenTest, DamagedPtrIsAnErrorNotABadAccess) {
  write();
  poke<uint32_t>("samples/ptr.npy", 7, 0xfffffff0u);
  const Screen screen = Screen::open_unchecked(path_);
  const RemovedReader reader(screen.samples());
  std::vector<uint32_t> genes;
  EXPECT_ERROR(reader.read(6, genes), "ptr of sample 7 is 4294967280");
  EXPECT_ERROR(reader.read(7, genes), "damaged");
  EXPECT_ERROR(reader.begin(301), "sample 301 asked for");
  EXPECT_ERROR(reader.at(1u << 30), "asked for");
  fs::remove_all(path_);
  write();
  poke<uint32_t>("samples/ptr.npy", 7, 0);
  const Screen second = Screen::open_unchecked(path_);
  EXPECT_ERROR(RemovedReader(second.samples()).count(6), "falls");
}

TEST_F(ScreenTest, OpeningUncheckedChecksWhatIsCheap) {
  const auto said = [&](auto damage) {
    fs::remove_all(path_);
    write();
    damage();
    const std::string words = error_of([&] { Screen::open_unchecked(path_); });
    EXPECT_TRUE(words.starts_with(path_.string())) << words;
    return words;
  };
  const auto edit = [&](auto change) { return [=, this] { edit_manifest(path_, change); }; };
  EXPECT_NE(said([&] { poke<uint32_t>("samples/ptr.npy", 300, 1); }).find("ptr goes from 0 to 1"),
            std::string::npos);
  EXPECT_NE(said([&] {
              poke<uint8_t>("edges/gene.physical.gene.npy", 119, 40);
            }).find("edge 119 of type 'gene.physical.gene' has source index 40"),
            std::string::npos);
  EXPECT_NE(said(edit([](Json& m) { m["samples"]["labels"] = {"one"}; })).find("labels are f32"),
            std::string::npos);
  EXPECT_NE(said(edit([](Json& m) {
              m["samples"]["columns"].push_back({{"name", "x"}});
            })).find("names no array samples/x.npy"),
            std::string::npos);
  EXPECT_NE(said(edit([](Json& m) { m["nodes"][0]["count"] = 41; })).find("has 40 names"),
            std::string::npos);
  EXPECT_NE(said(edit([](Json& m) { m.erase("edges"); })).find("'edges' not found"),
            std::string::npos);
  EXPECT_NE(said(edit([](Json& m) { m["nodes"].erase(0); })).find("gene"), std::string::npos);
}

TEST_F(ScreenTest, SplitsAreAddedToAFinishedScreen) {
  write();
  add_split(path_, thirds_split(300, "late"));
  const Screen screen = Screen::open(path_);
  EXPECT_NO_THROW(screen.check(Progress::none()));
  EXPECT_EQ(screen.splits().size(), 2u);
  EXPECT_ERROR(add_split(path_, thirds_split(300, "late")), "has a split 'late' already");
  EXPECT_ERROR(add_split(path_, thirds_split(299, "short")), "300 samples need u8 [300]");
  EXPECT_ERROR(add_split(path_, thirds_split(300, "../up")), "cannot be named '../up'");
}

TEST_F(ScreenTest, ASplitIsTakenAwayAndItsNameIsFree) {
  write();
  const Split late = thirds_split(300, "late");
  add_split(path_, late);
  const std::string before = Screen::open(path_).splits()[0].name;
  const Split removed = remove_split(path_, "late");
  EXPECT_EQ(removed.name, "late");
  EXPECT_TRUE(std::ranges::equal(removed.parts.as<uint8_t>(), late.parts.as<uint8_t>()));
  const Screen screen = Screen::open(path_);
  EXPECT_NO_THROW(screen.check(Progress::none()));
  ASSERT_EQ(screen.splits().size(), 1u);
  EXPECT_EQ(screen.splits()[0].name, before);
  EXPECT_FALSE(fs::exists(path_ / "splits/late.npy"));
  EXPECT_ERROR(remove_split(path_, "late"), "no split 'late'");
  add_split(path_, late);
  EXPECT_EQ(Screen::open(path_).splits().size(), 2u);
}

TEST_F(ScreenTest, FingerprintTellsContentsApart) {
  const Samples samples = small_samples(seed_, 70000);
  const Fingerprint whole = fingerprint_of(samples);
  // Appending leaves the complete blocks as they were.
  const Fingerprint longer = fingerprint_of(small_samples(seed_, 70001));
  ASSERT_EQ(whole.parts()[0].name, "samples 0:65536");
  EXPECT_EQ(whole.parts()[0], longer.parts()[0]);
  EXPECT_NE(whole.parts()[1], longer.parts()[1]);
  // The same genes cut into samples in another place are other samples.
  SampleBuilder one(9, {}), other(9, {});
  const uint32_t genes[] = {1, 2, 3};
  one.add({genes, 1}, {});
  one.add({genes + 1, 2}, {});
  other.add({genes, 2}, {});
  other.add({genes + 2, 1}, {});
  EXPECT_NE(fingerprint_of(one.finish()).value(), fingerprint_of(other.finish()).value());
  // The type they are stored in does not matter.
  Samples wide = samples;
  wide.removed = Array::from(widen(samples.removed));
  EXPECT_EQ(fingerprint_of(wide).value(), whole.value());
  Samples relabelled = samples;
  relabelled.label_names[0] = "other";
  EXPECT_EQ(fingerprint_of(relabelled).differing_parts(whole),
            std::vector<std::string>{"label other"});
}

TEST_F(ScreenTest, FingerprintOfSomeSamplesIsCutAtTheirEnds) {
  const Samples samples = small_samples(seed_, 70000);
  const Fingerprint whole = fingerprint_of(samples);
  const Fingerprint some = fingerprint_of_removed(samples, 65530, 66000);
  ASSERT_EQ(some.parts().size(), 2u);
  EXPECT_EQ(some.parts()[0].name, "samples 65530:65536");
  EXPECT_EQ(some.parts()[1].name, "samples 65536:66000");
  std::vector<uint64_t> six = {65530, 65531, 65532, 65533, 65534, 65535};
  EXPECT_EQ(some.parts()[0].hash, fingerprint_of(take_samples(samples, six)).parts()[0].hash);
  EXPECT_EQ(fingerprint_of_removed(samples, 0, 70000).value(), whole.only({"samples "}).value());
  // Parts that are known are not read.
  Fingerprint known;
  known.add("samples 0:65536", 17);
  EXPECT_EQ(fingerprint_of_removed(samples, 0, 66000, known).parts()[0].hash, 17u);
  EXPECT_TRUE(fingerprint_of_removed(samples, 5, 5).parts().empty());
}

TEST_F(ScreenTest, GraphFingerprintNamesWhatChanged) {
  const Fingerprint before = fingerprint_of(small_graph(seed_));
  EXPECT_EQ(fingerprint_of(small_graph(seed_)).parts(), before.parts());
  const auto differing = fingerprint_of(small_graph(seed_ + 1)).differing_parts(before);
  EXPECT_EQ(differing,
            (std::vector<std::string>{
                "features gene.embedding", "edges gene.physical.gene", "edges gene.weighted.gene",
                "values gene.weighted.gene.weight", "edges gene.catalyses.reaction"}));
  const auto renamed = fingerprint_of(small_graph(seed_, 41)).differing_parts(before);
  EXPECT_EQ(renamed[0], "genes");
}

TEST_F(ScreenTest, NamesThatCannotBeFilesAreRefused) {
  const HeteroGraph graph = small_graph(seed_);
  const auto said = [&](const std::string& name) {
    Samples samples = small_samples(seed_, 5);
    samples.columns[0].name = name;
    return error_of([&] { write_screen(path_, {graph, samples, {}, {}}); });
  };
  EXPECT_NE(said("label").find("cannot be named 'label'"), std::string::npos);
  EXPECT_NE(said("a/b").find("cannot be named 'a/b'"), std::string::npos);
  EXPECT_NE(said("").find("cannot be named ''"), std::string::npos);
  EXPECT_NE(said("plate").find("two of kind column"), std::string::npos);
}

TEST(Column, CodesAndNumbers) {
  const std::vector<uint32_t> codes = {0, 2, 9, 1};
  const Column column = make_category_column("c", codes, {"a", "b", "c"});
  EXPECT_EQ(column.values.dtype(), DType::u8);
  EXPECT_EQ(column.code(1), 2u);
  EXPECT_FALSE(column.code(2).has_value());
  std::vector<std::string> many(255, "x");
  EXPECT_EQ(make_category_column("c", codes, many).values.dtype(), DType::u8);
  many.push_back("x");
  EXPECT_EQ(make_category_column("c", codes, many).values.dtype(), DType::u16);
  EXPECT_EQ((Column{"n", Array::from<int64_t>({-5}), {}}).number(0), -5.0);
}

TEST(Part, NamesGoBothWays) {
  for (const Part part : {Part::train, Part::validation, Part::test, Part::unused})
    EXPECT_EQ(part_from_name(name(part)), part);
  EXPECT_EQ(part_from_name("val"), Part::validation);
  EXPECT_ERROR(part_from_name("dev"), "'dev' is not a part");
  EXPECT_ERROR(name(Part(3)), "3 is not a part");
}

}  // namespace
}  // namespace lacuna
