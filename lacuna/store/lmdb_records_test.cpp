#include "lacuna/store/lmdb_records.h"

#include <gtest/gtest.h>
#include <lmdb.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using Entries = std::map<std::string, std::string>;
constexpr uint64_t kPage = 4096;

// Small values, which share pages with their keys, and large ones, which have pages of their own.
Entries random_entries(Random& random, size_t count) {
  Entries entries;
  while (entries.size() < count)
    entries[std::to_string(random.below(1'000'000))] = std::string(
        random.below(3) ? random.below(300) : random.below(20'000), char('a' + random.below(26)));
  return entries;
}

// After several transactions the file also holds pages of the states before, which lack a part of
// the entries.
void write(const fs::path& folder, const Entries& entries, size_t transactions = 1) {
  MDB_env* environment = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  ASSERT_EQ(mdb_env_create(&environment), 0);
  ASSERT_EQ(mdb_env_set_mapsize(environment, 64 << 20), 0);
  ASSERT_EQ(mdb_env_open(environment, folder.c_str(), MDB_NOSYNC, 0644), 0);
  auto next = entries.begin();
  for (size_t t = 1; t <= transactions; ++t) {
    ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), 0);
    ASSERT_EQ(mdb_dbi_open(transaction, nullptr, MDB_CREATE, &database), 0);
    for (size_t i = entries.size() * (t - 1) / transactions; i < entries.size() * t / transactions;
         ++i, ++next) {
      MDB_val k = {next->first.size(), const_cast<char*>(next->first.data())};
      MDB_val v = {next->second.size(), const_cast<char*>(next->second.data())};
      ASSERT_EQ(mdb_put(transaction, database, &k, &v, 0), 0);
    }
    ASSERT_EQ(mdb_txn_commit(transaction), 0);
  }
  mdb_env_close(environment);
}

std::vector<std::pair<std::string, std::string>> read(const fs::path& path) {
  std::vector<std::pair<std::string, std::string>> found;
  LmdbRecords records(path);
  while (records.next())
    found.emplace_back(
        records.key(),
        std::string(reinterpret_cast<const char*>(records.value().data()), records.value().size()));
  EXPECT_EQ(found.size(), records.entries());
  EXPECT_FALSE(records.next());
  return found;
}

struct Database {
  explicit Database(size_t count = 300, size_t transactions = 1) {
    entries = random_entries(random, count);
    write(folder.path(), entries, transactions);
    text = read_text(data);
  }

  // The pages of the tree with one of these flags: branches 1, leaves 2.
  std::vector<uint64_t> pages(unsigned flags) const {
    std::vector<uint64_t> found;
    for (uint64_t at = 0; at + kPage <= text.size(); at += kPage) {
      uint64_t number;
      std::memcpy(&number, text.data() + at, sizeof number);
      if (number == at / kPage && get(at + 10) & flags && get(at + 12) >= 16) found.push_back(at);
    }
    return found;
  }
  uint16_t get(uint64_t at) const {
    uint16_t value;
    std::memcpy(&value, text.data() + at, sizeof value);
    return value;
  }
  void put(uint64_t at, uint16_t value) { std::memcpy(text.data() + at, &value, sizeof value); }
  std::string error() const {
    write_file(data, text);
    return error_of([&] { read(folder.path()); });
  }

  uint64_t seed = test_seed();
  Random random{seed};
  TemporaryDirectory folder;
  fs::path data = folder / "data.mdb";
  Entries entries;
  std::string text;  // of the file
};

void expect_has(const std::string& said, const std::string& words) {
  EXPECT_NE(said.find(words), std::string::npos) << "said: " << said << "\nnot: " << words;
}

TEST(LmdbRecords, AreThoseOfTheDatabase) {
  const Database database(2000);
  SCOPED_TRACE(database.seed);
  for (const fs::path& path : {database.folder.path(), database.data}) {
    const auto found = read(path);
    ASSERT_EQ(found.size(), database.entries.size());
    size_t i = 0;
    for (const auto& [key, value] : database.entries) {
      EXPECT_EQ(found[i].first, key);
      EXPECT_TRUE(found[i++].second == value);
    }
  }
  LmdbRecords(database.folder.path()).next();  // the rest is left
}

TEST(LmdbRecords, AnEmptyDatabaseHasNone) {
  const TemporaryDirectory folder;
  write(folder.path(), {});
  EXPECT_TRUE(read(folder.path()).empty());
}

TEST(LmdbRecords, WhatIsNoDatabaseIsNamed) {
  const TemporaryDirectory folder;
  EXPECT_ERROR(LmdbRecords(folder / "none"), "/none: no LMDB here");
  EXPECT_ERROR(LmdbRecords(folder.path()), "data.mdb is not a file");
  ASSERT_EQ(::mkfifo((folder / "data.mdb").c_str(), 0600), 0);
  EXPECT_ERROR(LmdbRecords(folder.path()), "data.mdb is not a file");
  fs::remove(folder / "data.mdb");
  for (const std::string& text : {std::string(), std::string(100'000, 'x')}) {
    write_file(folder / "data.mdb", text);
    EXPECT_ERROR(LmdbRecords(folder.path()), "cannot open as LMDB");
  }
}

// A page that has one entry less: LMDB walks through the rest and says nothing.
TEST(LmdbRecords, LostEntriesAreAnErrorWithBothNumbers) {
  Database database;
  SCOPED_TRACE(database.seed);
  const auto leaves = database.pages(2);
  const uint64_t leaf = leaves[database.random.below(leaves.size())];
  database.put(leaf + 12, uint16_t(database.get(leaf + 12) - 2));
  expect_has(database.error(), "300 entries stated, 299 found: its pages are damaged");
}

TEST(LmdbRecords, SurplusEntriesAreAnError) {
  Database database;
  SCOPED_TRACE(database.seed);
  constexpr uint64_t kEntries = 16 + 24 + 48 + 32;  // of the main database, in a first page
  for (const uint64_t page : {uint64_t(0), kPage})
    if (database.get(page + kEntries) == 300) database.put(page + kEntries, 250);
  expect_has(database.error(), "250 entries stated, and more found");
}

TEST(LmdbRecords, ACrashOfLmdbIsAnError) {
  Database database;
  SCOPED_TRACE(database.seed);
  for (const uint64_t branch : database.pages(1))
    database.put(branch + 12, 18);  // with one child, which LMDB does not believe
  const std::string said = database.error();
  expect_has(said, database.folder.path().string() + ": LMDB could not be read on");
  expect_has(said, "(Aborted): its pages are damaged; restore it");
}

TEST(LmdbRecords, KeysOutOfOrderAndPagesOutOfPlaceAreErrors) {
  Database database;
  SCOPED_TRACE(database.seed);
  const std::string whole = database.text;
  const auto leaves = database.pages(2);
  const uint64_t leaf = leaves[leaves.size() / 2];
  std::swap_ranges(&database.text[leaf + 16], &database.text[leaf + 18], &database.text[leaf + 18]);
  expect_has(database.error(), "' stands behind key '");
  database.text = whole;
  database.put(leaf, uint16_t(leaf / kPage + 1));
  expect_has(database.error(), "says that it is page");
}

TEST(LmdbRecords, DamagedFirstPagesAreErrors) {
  for (const uint16_t bytes : {0, 1, 100, 4097, 32768}) {
    Database database;
    for (const uint64_t page : {uint64_t(0), kPage})
      database.put(page + 16 + 24, bytes);  // of a page
    EXPECT_NE(database.error(), "") << bytes;
  }
}

// LMDB reads the page whose transaction is the newer one: with that number damaged it would read
// the state before, in which a third of the entries is missing.
TEST(LmdbRecords, ADamagedTransactionNumberLosesNothing) {
  for (const size_t transactions : {1, 2, 3}) {
    Database database(300, transactions);
    SCOPED_TRACE(database.seed);
    const std::string whole = database.text;
    for (const uint64_t page : {uint64_t(0), kPage})
      for (int bit = 0; bit < 64; ++bit) {
        database.text = whole;
        char& byte = database.text[page + 144 + uint64_t(bit) / 8];
        byte = char(byte ^ 1 << bit % 8);
        write_file(database.data, database.text);
        EXPECT_ERROR(read(database.folder.path()), "do not say which of them is newer");
      }
  }
}

// Whatever a flipped bit does, it is an Error, or all entries are there and at most one has
// changed: LMDB has no checksums for those. Nothing crashes.
TEST(LmdbRecords, FlippedBitsAnywhere) {
  Database database;
  SCOPED_TRACE(database.seed);
  const std::string whole = database.text;
  auto tree = database.pages(1 | 2);
  tree.insert(tree.end(), {0, kPage});
  int errors = 0;
  for (int round = 0; round < 150; ++round) {
    database.text = whole;
    const uint64_t byte =
        tree[database.random.below(tree.size())] + database.random.below(round % 2 ? kPage : 200);
    database.text[byte] = char(database.text[byte] ^ 1 << database.random.below(8));
    write_file(database.data, database.text);
    try {
      size_t changed = 0;
      const auto found = read(database.folder.path());
      EXPECT_EQ(found.size(), database.entries.size()) << "byte " << byte;
      for (const auto& [key, value] : found) {
        const auto entry = database.entries.find(key);
        changed += entry == database.entries.end() || entry->second != value;
      }
      EXPECT_LE(changed, 1u) << "byte " << byte;
    } catch (const Error& error) {
      ++errors;
      expect_has(error.what(), database.folder.path().string());
    }
  }
  EXPECT_GT(errors, 10);
}

TEST(LmdbRecords, ShreddedTreesNeverCrash) {
  Database database(2000);
  SCOPED_TRACE(database.seed);
  const std::string whole = database.text;
  const auto tree = database.pages(1 | 2);
  for (int round = 0; round < 40; ++round) {
    database.text = whole;
    for (int i = 0; i < 100; ++i)
      database.text[tree[database.random.below(tree.size())] +
                    database.random.below(round % 2 ? kPage : 40)] = char(database.random.next());
    write_file(database.data, database.text);
    if (round % 2 == 0) {
      EXPECT_NE(database.error(), "");  // in the heads of pages
      continue;
    }
    try {
      read(database.folder.path());
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace lacuna
