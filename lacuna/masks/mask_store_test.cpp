#include "lacuna/masks/mask_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "lacuna/masks/testing.h"
#include "lacuna/store/testing.h"

namespace lacuna {
namespace {

using testing::expect_masks;
using testing::StoreScreens;

constexpr MaskForm kForms[] = {MaskForm::u8, MaskForm::bits, MaskForm::bf16, MaskForm::positions};

TEST(MaskStore, GivesTheMasksOfTheScreenInEveryForm) {
  const StoreScreens f;
  SCOPED_TRACE(f.seed);
  const Screen screen = f.write("screen", 300);
  for (const MaskForm form : kForms) {
    const std::string rung = disk_rung(form);
    SCOPED_TRACE(rung);
    EXPECT_EQ(form_of_disk_rung(rung), form);
    prepare_masks(screen, form, f.directory / rung, {.samples = {{7, 290}}, .threads = 3});
    const MaskStore store = MaskStore::open(f.directory / rung, screen);
    EXPECT_EQ(store.form(), form);
    expect_masks(screen, store, 7, 290);
    EXPECT_ERROR(store.record(6), "sample 6 is not in store");
    EXPECT_ERROR(store.record(290), "holds 7 to 289");
  }
  EXPECT_ERROR(form_of_disk_rung("disk:u9"), "disk:positions");
}

// Large values lie in pages of their own: views without a copy, aligned to a cache line.
TEST(MaskStore, RecordsAreAlignedViewsThatOutliveTheStoreTheyCameFrom) {
  const StoreScreens f(50, GraphSize::small);
  const Screen screen = f.write("screen", 50);
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16}) {
    const fs::path path = f.directory / disk_rung(form);
    prepare_masks(screen, form, path, {});
    auto store = std::make_unique<MaskStore>(MaskStore::open(path, screen));
    const MaskStore copy = *store;
    const auto first = store->record(3);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 64, 0u);
    EXPECT_EQ(copy.record(3).data(), first.data());
    const std::vector<std::byte> bytes(first.begin(), first.end());
    store.reset();
    EXPECT_TRUE(std::ranges::equal(first, bytes));
    EXPECT_GE(copy.bytes(), 50 * bytes.size());
  }
}

TEST(MaskStore, ManyThreadsRead) {
  const StoreScreens f(200, GraphSize::small);
  const Screen screen = f.write("screen", 200);
  prepare_masks(screen, MaskForm::bits, f.directory / "store", {});
  const MaskStore store = MaskStore::open(f.directory / "store", screen);
  std::vector<uint64_t> hashes;
  for (uint64_t s = 0; s < 200; ++s) hashes.push_back(hash64(store.record(s)));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Random random(f.seed, t);
      for (int round = 0; round < 500; ++round) {
        const uint64_t s = random.below(200);
        wrong += hash64(store.record(s)) != hashes[s];
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(MaskStore, StaleStoresAreRefusedByTheirPart) {
  const StoreScreens f;
  SCOPED_TRACE(f.seed);
  const Screen screen = f.write("screen", 200);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::bits, path, {});
  const auto says = [&](const Screen& other) {
    const std::string words = error_of([&] { MaskStore::open(path, other); });
    EXPECT_NE(words.find("anew with `lacuna prepare " + other.path().string() +
                         " --rung disk:bits --out " + path.string() + " --again`"),
              words.npos)
        << words;
    return words;
  };
  const auto expect = [&](const std::string& words, const std::string& part) {
    EXPECT_NE(words.find(part), words.npos) << words;
  };
  // The same graph but for one thing.
  const auto copy_graph = [&](const std::string& rename, const std::string& cut) {
    HeteroGraph graph;
    for (const auto& type : f.graph.node_types()) {
      auto names = type.names.all();
      if (type.name == rename) names[0] += "x";
      graph.add_nodes(type.name, Names(names));
    }
    for (const auto& type : f.graph.edge_types()) {
      auto sources = type.sources(), targets = type.targets();
      if (type.name == cut) {
        sources.pop_back();
        targets.pop_back();
      }
      const uint64_t count = sources.size();
      sources.insert(sources.end(), targets.begin(), targets.end());
      graph.add_edges(type.source, type.name, type.target,
                      Array::from(std::move(sources), {2, count}),
                      type.name == cut ? std::vector<EdgeValue>() : type.values);
    }
    return graph;
  };
  const Samples some = take_samples(f.all, testing::first_samples(200));
  const uint64_t physical = f.graph.edges("gene.physical.gene").size();
  expect(says(f.write("edges", copy_graph("", "physical"), some)),
         fmt::format("made for another graph: edges of type 'physical' differ ({} here, {} there)",
                     physical - 1, physical));
  expect(says(f.write("genes", copy_graph("gene", ""), some)), "another graph: genes differ (");
  auto swapped = testing::first_samples(200);
  swapped[150] = 201;
  swapped[151] = 202;
  expect(says(f.write("swapped", f.graph, take_samples(f.all, swapped))),
         "made for other samples: samples 0:200 differ");
  expect(says(f.write("fewer", 199)), "made for other samples: it holds 0 to 199");

  // More samples, a label or a column are no difference.
  Samples more = take_samples(f.all, testing::first_samples(300));
  more.columns.clear();
  const Screen grown = f.write("more", f.graph, more);
  expect_masks(grown, MaskStore::open(path, grown), 0, 200);
  EXPECT_ERROR(MaskStore::open(path, grown).record(200), "run `lacuna prepare` again");
}

TEST(MaskStore, UnfinishedAndForeignDirectoriesAreRefused) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 20);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::u8, path, {});
  EXPECT_ERROR(MaskStore::open(screen.path(), screen), "a lacuna.screen, not a lacuna.store");
  EXPECT_ERROR(MaskStore::open(f.directory / "none", screen), "no such directory");
  fs::rename(path / "manifest.json", f.directory / "kept");
  EXPECT_ERROR(MaskStore::open(path, screen), "no manifest.json");
  fs::rename(f.directory / "kept", path / "manifest.json");
  const RemovalRules rules(screen.graph());
  DirectoryWriter::reopen(path,
                          MaskStoreContents::of(screen, rules, MaskForm::u8, 0, 20).to_json());
  const std::string command =
      "run `lacuna prepare " + screen.path().string() + " --rung disk:u8 --out " + path.string();
  EXPECT_ERROR(MaskStore::open(path, screen), "unfinished");
  EXPECT_ERROR(MaskStore::open(path, screen), command + "`");
  fs::remove_all(path);
  prepare_masks(screen, MaskForm::u8, path, {.samples = {{5, 12}}});
  DirectoryWriter::reopen(path,
                          MaskStoreContents::of(screen, rules, MaskForm::u8, 5, 12).to_json());
  EXPECT_ERROR(MaskStore::open(path, screen), command + " --samples 5:12`");
}

TEST(MaskStore, AStoreOfSomethingElseIsCalledThat) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 20);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::u8, path, {});
  edit_manifest(path, [](Json& manifest) {
    EXPECT_EQ(manifest.at("of"), "screen");
    manifest["of"] = "recording";
    manifest["rung"] = "disk:frames";  // its other members need not be known
  });
  const std::string words = path.string() + ": a store of a recording, not of a screen";
  EXPECT_ERROR(MaskStore::open(path, screen), words);
  EXPECT_ERROR(prepare_masks(screen, MaskForm::u8, path, {}), words);
  edit_manifest(path, [](Json& manifest) {
    manifest["rung"] = "disk:u8";
    manifest.erase("of");  // as the first ones were
  });
  EXPECT_NO_THROW(MaskStore::open(path, screen));
}

// Where a value lies in data.mdb: behind its header, which no other bytes equal.
uint64_t place_of_record(const fs::path& data, MaskForm form, std::span<const std::byte> record,
                         uint64_t sample) {
  const MaskHeader header = {
      .form = uint32_t(form), .sample = sample, .xxh3 = hash64(record), .bytes = record.size()};
  const std::string_view words(reinterpret_cast<const char*>(&header), sizeof header);
  const size_t place = read_text(data).find(words);
  EXPECT_NE(place, std::string::npos);
  return place + sizeof header;
}

TEST(MaskStore, ADamagedRecordIsFoundWhenItIsFirstRead) {
  const StoreScreens f(50, GraphSize::small);
  SCOPED_TRACE(f.seed);
  const Screen screen = f.write("screen", 50);
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16}) {
    const fs::path path = f.directory / disk_rung(form);
    prepare_masks(screen, form, path, {.samples = {{3, 50}}});
    uint64_t byte = 0;
    {
      const MaskStore store = MaskStore::open(path, screen);
      const auto record = store.record(7);
      byte =
          place_of_record(path / "data.mdb", form, record, 7) + Random(f.seed).below(record.size());
    }
    flip(path / "data.mdb", byte, unsigned(f.seed % 8));
    const MaskStore store = MaskStore::open(path, screen);  // LMDB does not look there
    for (int again = 0; again < 2; ++again)
      EXPECT_ERROR(store.record(7), "store " + path.string() +
                                        ": damaged record of sample 7; "
                                        "`lacuna verify " +
                                        path.string());
    EXPECT_ERROR(store.record(7), " --samples 3:50 --again` makes the store anew");
    for (uint64_t s = 3; s < 50; ++s)
      if (s != 7) {
        EXPECT_NO_THROW(store.record(s));
      }
  }
}

// The record of positions lies in a page that LMDB finds values by.
TEST(MaskStore, DamageToThePagesOfLmdbOrTheirChecksumsIsFoundBeforeLmdbReadsThem) {
  const StoreScreens f;
  SCOPED_TRACE(f.seed);
  const Screen screen = f.write("screen", 100);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::positions, path, {});
  Random random(f.seed);
  for (const char* const file : {"data.mdb", "pages.npy", "manifest.json"}) {
    const std::string whole = read_text(path / file);
    for (int round = 0; round < 40; ++round) {
      flip(path / file, random.below(whole.size()), unsigned(random.below(8)));
      EXPECT_THROW(MaskStore::open(path, screen), Error) << file;
      write_file(path / file, whole);
    }
  }
  // More samples are not added to damaged ones, whose pages would get new checksums.
  const Screen grown = f.write("grown", 200);
  flip(path / "data.mdb", 3 * 4096 + 17);
  EXPECT_ERROR(prepare_masks(grown, MaskForm::positions, path, {}), "has changed");
}

// As they were written before manifests had a seal: "xxh3" of all members but three.
TEST(MaskStore, OlderManifestsAreCheckedByTheirOwnRule) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 20);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::u8, path, {});
  const auto open = [&] { return check_store_manifest(Directory::open(path, "lacuna.store", 1)); };
  EXPECT_TRUE(open());
  edit_manifest(path, [](Json& manifest) {
    Json own = manifest;
    for (const char* key : {"format", "version", "files"}) own.erase(key);
    manifest["xxh3"] = hex(hash64(own.dump()));
  });
  EXPECT_TRUE(open());
  EXPECT_NO_THROW(MaskStore::open(path, screen));
  edit_manifest(path, [](Json& manifest) { manifest["made_by"] = "somebody"; });
  EXPECT_ERROR(open(), "manifest.json has changed");
  EXPECT_ERROR(MaskStore::open(path, screen), "manifest.json has changed");
  edit_manifest(path, [](Json& manifest) { manifest.erase("xxh3"); });
  EXPECT_FALSE(open());
  EXPECT_NO_THROW(MaskStore::open(path, screen));
}

TEST(MaskStore, IsNotWrittenThroughALink) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 20), grown = f.write("grown", 30);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::u8, path, {});
  fs::rename(path / "data.mdb", f.directory / "elsewhere");
  fs::create_symlink(f.directory / "elsewhere", path / "data.mdb");
  const std::string before = read_text(f.directory / "elsewhere");
  EXPECT_NO_THROW(MaskStore::open(path, screen));
  EXPECT_ERROR(prepare_masks(grown, MaskForm::u8, path, {}), "data.mdb: a link");
  EXPECT_EQ(read_text(f.directory / "elsewhere"), before);
  EXPECT_NO_THROW(MaskStore::open(path, screen));
}

TEST(MaskStore, CommandsCanBeCopiedIntoAShell) {
  const StoreScreens f;
  const Screen screen = f.write("my screen", 20);
  EXPECT_EQ(prepare_command(screen, MaskForm::u8, "it's"),
            "lacuna prepare '" + screen.path().string() + "' --rung disk:u8 --out 'it'\\''s'");
}

TEST(MaskStore, ACommandForAPartOfAScreenSaysWhichPart) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 20);
  const auto words = [&](uint64_t begin, uint64_t end,
                         GeneReactionView view = GeneReactionView::gene) {
    MaskStoreContents contents;
    contents.form = MaskForm::bits;
    contents.view = view;
    contents.begin = begin;
    contents.end = end;
    const std::string all = prepare_command(screen, MaskForm::bits, "store");
    return prepare_command(screen, contents, "store").substr(all.size());
  };
  EXPECT_EQ(words(0, 20), "");
  EXPECT_EQ(words(0, 30), "");  // more than there are: all
  EXPECT_EQ(words(0, 7), " --samples 0:7");
  EXPECT_EQ(words(3, 30), " --samples 3:20");
  EXPECT_EQ(words(0, 20, GeneReactionView::gene_and_reaction), " --view gene_and_reaction");
}

// The tree is looked at before LMDB walks it.
TEST(MaskStore, ADamagedTreeIsRefused) {
  const StoreScreens f;
  const Screen screen = f.write("screen", 100);
  const fs::path path = f.directory / "store";
  prepare_masks(screen, MaskForm::u8, path, {});
  std::string data = read_text(path / "data.mdb");
  data[2 * 4096 + 100] = char(data[2 * 4096 + 100] ^ 1);
  write_file(path / "data.mdb", data);
  EXPECT_ERROR(MaskStore::open(path, screen), "page 2 (bytes 8192 to 12287)");
  data.pop_back();
  write_file(path / "data.mdb", data);
  EXPECT_ERROR(MaskStore::open(path, screen), "cut short");
  fs::remove(path / "data.mdb");
  EXPECT_ERROR(MaskStore::open(path, screen), "data.mdb: missing");
}

}  // namespace
}  // namespace lacuna
