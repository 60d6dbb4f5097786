#include "lacuna/store/lmdb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

class Lmdb : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lacuna_lmdb_test_" + hex(fresh_seed()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::map<std::string, std::string>& entries) {
    MDB_env* environment = nullptr;
    MDB_txn* transaction = nullptr;
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_env_create(&environment), 0);
    ASSERT_EQ(mdb_env_set_mapsize(environment, 64 << 20), 0);
    ASSERT_EQ(mdb_env_open(environment, folder_.c_str(), 0, 0644), 0);
    ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), 0);
    ASSERT_EQ(mdb_dbi_open(transaction, nullptr, MDB_CREATE, &database), 0);
    for (const auto& [key, value] : entries) {
      MDB_val k = {key.size(), const_cast<char*>(key.data())};
      MDB_val v = {value.size(), const_cast<char*>(value.data())};
      ASSERT_EQ(mdb_put(transaction, database, &k, &v, 0), 0);
    }
    ASSERT_EQ(mdb_txn_commit(transaction), 0);
    mdb_env_close(environment);
  }
  fs::path folder_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(Lmdb, EntriesComeBackInOrder) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::map<std::string, std::string> entries;
  for (int i = 0; i < 300; ++i)
    entries[std::to_string(random.below(100'000))] = std::string(random.below(20'000), 'v');
  write(entries);
  fs::remove(folder_ / "lock.mdb");

  for (const fs::path& path : {folder_, folder_ / "data.mdb"}) {
    const LmdbEnvironment environment(path);
    EXPECT_EQ(environment.entries(), entries.size());
    const LmdbTransaction view(environment);
    std::map<std::string, std::string> found;
    std::string last;
    for (LmdbCursor cursor(view); cursor.next();) {
      EXPECT_LT(last, cursor.key());
      last = cursor.key();
      found[last] = text_of(cursor.value());
    }
    EXPECT_TRUE(found == entries);
    EXPECT_EQ(text_of(*view.get(last)), entries[last]);
    EXPECT_EQ(view.get("nowhere"), std::nullopt);
  }
  EXPECT_FALSE(fs::exists(folder_ / "lock.mdb"));  // reading leaves nothing behind
}

TEST_F(Lmdb, EmptyOneHasNoEntries) {
  write({});
  const LmdbEnvironment environment(folder_);
  const LmdbTransaction view(environment);
  LmdbCursor cursor(view);
  EXPECT_FALSE(cursor.next());
}

TEST_F(Lmdb, WhatIsNoneIsRefused) {
  EXPECT_THROW(LmdbEnvironment(folder_ / "nowhere"), Error);
  EXPECT_THROW(LmdbEnvironment{folder_}, Error);  // an empty folder
  {
    FileWriter file(folder_ / "data.mdb");
    file.write(std::string(100'000, 'x'));
    file.close();
  }
  EXPECT_THROW(LmdbEnvironment{folder_}, Error);
}

TEST_F(Lmdb, CutShortIsRefused) {
  write({{"1", std::string(100'000, 'x')}, {"2", std::string(100'000, 'y')}});
  fs::resize_file(folder_ / "data.mdb", fs::file_size(folder_ / "data.mdb") - 50'000);
  try {
    LmdbEnvironment{folder_};
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("cut short"));
  }
}

}  // namespace
}  // namespace lacuna
