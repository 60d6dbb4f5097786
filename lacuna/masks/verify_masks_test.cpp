#include "lacuna/masks/verify_masks.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <cstring>

#include "lacuna/masks/testing.h"
#include "lacuna/store/testing.h"

namespace lacuna {
namespace {

using testing::StoreScreens;

std::string all_of(const VerifyResult& result) {
  return fmt::format("{} faults: {}", result.fault_count, fmt::join(result.faults, "; "));
}

// What is found, whether it is thrown or listed; empty when all is well.
std::string found(const Screen& screen, const fs::path& store,
                  VerifyOptions options = {.all = true}) {
  try {
    const VerifyResult result = verify_masks(screen, store, options);
    return result.fault_count == 0 ? "" : all_of(result);
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_found(const std::string& words, const std::string& said) {
  EXPECT_NE(said.find(words), std::string::npos) << "said: " << said << "\nnot: " << words;
}

struct Fixture : StoreScreens {
  explicit Fixture(MaskForm form, GraphSize size = GraphSize::small, uint64_t samples = 40)
      : StoreScreens(samples, size) {
    prepare_masks(screen, form, store, {});
  }
  Screen screen = write("screen", all.size());
  fs::path store = directory / "store";
  fs::path data = store / "data.mdb";
};

TEST(VerifyMasks, AWholeStoreHasNoFault) {
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16, MaskForm::positions})
    for (const GraphSize size : {GraphSize::tiny, GraphSize::small}) {
      const Fixture f(form, size);
      SCOPED_TRACE(f.seed);
      const VerifyResult all = verify_masks(f.screen, f.store, {.all = true});
      EXPECT_EQ(all.fault_count, 0u) << all_of(all);
      EXPECT_EQ(all.samples, 40u);
      EXPECT_GE(all.pages, 3u);
      EXPECT_EQ(verify_masks(f.screen, f.store, {.sample = 17}).samples, 1u);
      const VerifyResult some =
          verify_masks(f.screen, f.store, {.random_samples = 9, .seed = f.seed});
      EXPECT_EQ(some.samples, 9u);
      EXPECT_EQ(some.fault_count, 0u);
      EXPECT_ERROR(verify_masks(f.screen, f.store, {.sample = 40}), "holds 0 to 39");
    }
}

// Where the record of a sample begins in data.mdb, by looking for its header.
uint64_t record_offset(const fs::path& data, uint64_t sample, MaskForm form) {
  const std::string text = read_text(data);
  for (uint64_t page = 2; page < text.size() / 4096; ++page) {
    MaskHeader header;
    std::memcpy(&header, text.data() + page * 4096 + 16, sizeof header);
    if (header.version == 1 && header.form == uint32_t(form) && header.sample == sample &&
        header.zero[0] == 0 && header.bytes > 2000)
      return page * 4096 + 64;
  }
  ADD_FAILURE() << "sample " << sample << " not found";
  return 0;
}

TEST(VerifyMasks, SaysWhatIsWrongAndWhere) {
  const Fixture f(MaskForm::u8);
  const uint64_t record = record_offset(f.data, 23, MaskForm::u8);
  flip(f.data, record + 1000);
  expect_found(
      fmt::format("1 faults: sample 23: its record has changed (byte 1000 of {}, byte {} "
                  "of data.mdb)",
                  MaskLayout(RemovalRules(f.screen.graph()), MaskForm::u8).stride(), record + 1000),
      found(f.screen, f.store));
  expect_found("sample 23", found(f.screen, f.store, {.sample = 23}));
  EXPECT_EQ(found(f.screen, f.store, {.sample = 22}), "");
  flip(f.data, record + 1000);
  for (uint64_t byte = 0; byte < 48; ++byte) {
    flip(f.data, record - 48 + byte);
    expect_found("1 faults: sample 23: its header has changed",
                 found(f.screen, f.store, {.sample = 23}));
    flip(f.data, record - 48 + byte);
  }
  for (uint64_t byte = 0; byte < 16; ++byte) {
    flip(f.data, record - 64 + byte);
    expect_found("sample 23: the 16 bytes", found(f.screen, f.store, {.sample = 23}));
    flip(f.data, record - 64 + byte);
  }
  flip(f.data, 4096 + 50);
  expect_found("page 1 (bytes 4096 to 8191)", found(f.screen, f.store));
  flip(f.data, 4096 + 50);
  EXPECT_EQ(found(f.screen, f.store), "");

  const uint64_t bytes = fs::file_size(f.data);
  fs::copy_file(f.data, f.directory / "kept");
  for (const uint64_t cut : {bytes - 1, bytes / 2, uint64_t(4096), uint64_t(10), uint64_t(0)}) {
    fs::resize_file(f.data, cut);
    expect_found("cut short", found(f.screen, f.store));
  }
  fs::copy_file(f.directory / "kept", f.data, fs::copy_options::overwrite_existing);
  EXPECT_EQ(found(f.screen, f.store), "");
  fs::resize_file(f.data, bytes + 4096);
  expect_found("too long", found(f.screen, f.store));
  fs::remove(f.data);
  expect_found("data.mdb: missing", found(f.screen, f.store));
}

TEST(VerifyMasks, NamesAMissingSampleAndOneOfAnotherScreen) {
  const Fixture f(MaskForm::bits);
  const auto change = [&](uint64_t sample, const std::string* value) {
    MDB_env* environment = nullptr;
    MDB_txn* transaction = nullptr;
    MDB_dbi database = 0;
    std::string key = mask_key(sample);
    MDB_val k = {4, key.data()};
    ASSERT_EQ(mdb_env_create(&environment), 0);
    ASSERT_EQ(mdb_env_set_mapsize(environment, 1 << 30), 0);
    ASSERT_EQ(mdb_env_open(environment, f.store.c_str(), MDB_NOLOCK, 0644), 0);
    ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), 0);
    ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), 0);
    if (value) {
      MDB_val v = {value->size(), const_cast<char*>(value->data())};
      ASSERT_EQ(mdb_put(transaction, database, &k, &v, 0), 0);
    } else {
      ASSERT_EQ(mdb_del(transaction, database, &k, nullptr), 0);
    }
    ASSERT_EQ(mdb_txn_commit(transaction), 0);
    mdb_env_close(environment);
  };
  // Right in itself, but of other genes.
  const MaskEncoder encoder(RemovalRules(f.screen.graph()), MaskForm::bits);
  const std::vector<uint32_t> genes = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<std::byte> record;
  encoder.append(11, genes, record);
  const MaskHeader header = {.form = uint32_t(MaskForm::bits),
                             .sample = 11,
                             .xxh3 = hash64(record),
                             .bytes = record.size()};
  std::string value(reinterpret_cast<const char*>(&header), sizeof header);
  value.append(reinterpret_cast<const char*>(record.data()), record.size());
  change(11, &value);
  expect_found("sample 11: a whole record, but not the one of this screen",
               found(f.screen, f.store));
  change(30, nullptr);
  const std::string said = found(f.screen, f.store);
  expect_found("sample 30: missing", said);
  expect_found("39 values, 40 expected", said);
  expect_found("which LMDB finds values by, has changed", said);
}

TEST(VerifyMasks, StaleAndUnfinishedStoresAreRefused) {
  const Fixture f(MaskForm::bits);
  const Screen other = f.write("other", 39);
  EXPECT_ERROR(verify_masks(other, f.store, {}), "made for other samples");
  for (const char* const file : {"manifest.json", "pages.npy"}) {
    const std::string text = read_text(f.store / file);
    Random random(f.seed);
    for (int round = 0; round < 60; ++round) {
      const uint64_t byte = random.below(text.size());
      if (text[byte] == ' ' || text[byte] == '\n') continue;  // between the words of JSON
      flip(f.store / file, byte);
      EXPECT_NE(found(f.screen, f.store, {.sample = 0}), "")
          << file << " byte " << byte << " seed " << f.seed;
      write_file(f.store / file, text);
    }
  }
  DirectoryWriter::reopen(f.store, Json());
  EXPECT_ERROR(verify_masks(f.screen, f.store, {}), "unfinished");
}

// A flipped byte is reported wherever it lies, but for what a value leaves of a page that it has
// for itself; nothing crashes. Pages of the tree are chosen more often than their share.
TEST(VerifyMasks, FlippedBytesAnywhere) {
  for (const MaskForm form : {MaskForm::bits, MaskForm::positions}) {
    const Fixture f(form, form == MaskForm::bits ? GraphSize::small : GraphSize::tiny);
    SCOPED_TRACE(f.seed);
    const std::string whole = read_text(f.data);
    std::vector<uint64_t> tree;
    const Directory directory = Directory::open(f.store, "lacuna.store", 1);
    const Array pages = directory.array("pages.npy");
    for (uint64_t i = 0; i < pages.shape()[0]; ++i) tree.push_back(pages.as<uint64_t>()[2 * i]);
    Random random(f.seed);
    constexpr int kRounds = 150;
    for (int round = 0; round < kRounds; ++round) {
      uint64_t byte = random.below(whole.size());
      const bool in_tree = round % 2 == 0;
      if (in_tree) byte = tree[random.below(tree.size())] * 4096 + random.below(4096);
      flip(f.data, byte, unsigned(random.below(8)));
      const std::string said = found(f.screen, f.store);
      if (in_tree) expect_found(fmt::format("page {} ", byte / 4096), said);
      // The records of bits fill several pages, those of positions lie in pages of the tree.
      EXPECT_NE(said, "") << byte;
      write_file(f.data, whole);
    }
  }
}

// Damage to several places of the tree at once: LMDB may crash, verify does not.
TEST(VerifyMasks, ShreddedTreesNeverCrash) {
  const Fixture f(MaskForm::positions, GraphSize::tiny, 2000);
  SCOPED_TRACE(f.seed);
  const std::string whole = read_text(f.data);
  Random random(f.seed);
  for (int round = 0; round < 60; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 200; ++i)
      damaged[4096 * random.below(whole.size() / 4096) + random.below(round % 2 ? 4096 : 40)] =
          char(random.next());
    write_file(f.data, damaged);
    EXPECT_NE(found(f.screen, f.store), "");
  }
}

}  // namespace
}  // namespace lacuna
