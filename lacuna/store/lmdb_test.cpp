#include "lacuna/store/lmdb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

class Lmdb : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lacuna_lmdb_test_" + hex(test_seed()));
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
  const uint64_t seed = test_seed();
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

std::string key_of(uint32_t number) {
  return {char(number >> 24), char(number >> 16), char(number >> 8), char(number)};
}

// Small and large values, in several transactions and by several writers; far more than the first
// map holds.
TEST_F(Lmdb, WhatIsCommittedIsThere) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<std::string> values;
  for (int opened = 0; opened < 3; ++opened) {
    LmdbWriter writer(folder_);
    EXPECT_EQ(writer.entries(), values.size());
    EXPECT_EQ(writer.first_key(), values.empty() ? "" : key_of(0));
    EXPECT_EQ(writer.last_key(), values.empty() ? "" : key_of(uint32_t(values.size()) - 1));
    for (int transaction = 0; transaction < 4; ++transaction) {
      std::vector<std::string> more;
      uint64_t bytes = 0;
      for (int i = 0; i < 30; ++i) {
        const uint64_t size = random.below(2) ? random.below(3000) : random.below(600'000);
        more.emplace_back(size, char(random.next()));
        bytes += size;
      }
      writer.begin(more.size(), bytes);
      for (size_t i = 0; i < more.size(); ++i)
        writer.append(key_of(uint32_t(values.size() + i)), std::as_bytes(std::span(more[i])));
      writer.commit();
      values.insert(values.end(), more.begin(), more.end());
    }
    writer.begin(2, 10);  // not committed
    writer.append(key_of(uint32_t(values.size())), std::as_bytes(std::span("gone")));
    EXPECT_THROW(writer.append(key_of(0), {}), Error);  // not behind the others
  }
  EXPECT_FALSE(fs::exists(folder_ / "lock.mdb"));
  const LmdbEnvironment environment(folder_);
  EXPECT_GT(environment.bytes_used(), 20u << 20);
  EXPECT_LE(environment.bytes_used(), fs::file_size(environment.data_file()));
  const LmdbTransaction view(environment);
  const std::string file = read_text(environment.data_file());
  uint32_t number = 0;
  for (LmdbCursor cursor(view); cursor.next(); ++number) {
    ASSERT_EQ(cursor.key(), key_of(number));
    ASSERT_EQ(text_of(cursor.value()), values[number]);
    const uint64_t offset = cursor.value_offset();
    EXPECT_EQ(std::string_view(file).substr(offset, values[number].size()), values[number]);
    if (values[number].size() > environment.page_bytes() / 2) {
      EXPECT_EQ(offset % environment.page_bytes(), 16u);
    }
  }
  EXPECT_EQ(number, values.size());
}

TEST_F(Lmdb, AFileThatWasOnlyBegunIsBegunAgain) {
  FileWriter file(folder_ / "data.mdb");
  file.write(std::string(4096, '\0'));
  file.close();
  LmdbWriter writer(folder_);
  writer.begin(1, 4);
  writer.append(key_of(7), std::as_bytes(std::span("abc", 3)));
  writer.commit();
  EXPECT_EQ(writer.last_key(), key_of(7));
}

// With a branch that has one child, over which LMDB aborts.
TEST_F(Lmdb, AWriterRefusesADamagedTree) {
  std::map<std::string, std::string> entries;
  for (uint32_t i = 0; i < 1000; ++i) entries[key_of(i)] = std::string(100, 'x');
  write(entries);
  std::string text = read_text(folder_ / "data.mdb");
  for (size_t page = 0; page < text.size(); page += 4096)
    if (text[page + 10] == 1) text[page + 12] = 18, text[page + 13] = 0;
  write_file(folder_ / "data.mdb", text);
  EXPECT_ERROR(LmdbWriter{folder_}, "its pages are damaged");
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

// So that a fault is reported with the file's name.
TEST_F(Lmdb, ItsMappingIsEntered) {
  write({{"1", "small"}, {"2", std::string(100'000, 'y')}});
  const void* place = nullptr;
  {
    const MappedFile other(folder_ / "data.mdb");
    const LmdbEnvironment environment(folder_);
    const LmdbTransaction view(environment);
    place = view.get("2")->data();
    EXPECT_TRUE(is_mapped_range(place));
    EXPECT_TRUE(is_mapped_range(view.get("1")->data()));
  }
  EXPECT_FALSE(is_mapped_range(place));
}

// More than there is room for; what was committed before stays.
std::string error_of_writing(const fs::path& folder) {
  LmdbWriter writer(folder);
  const std::string value(4 << 20, 'x');
  return error_of([&] {
    writer.begin(1, value.size());
    writer.append(key_of(uint32_t(writer.entries())), std::as_bytes(std::span(value)));
    writer.commit();
  });
}

TEST_F(Lmdb, ALimitOnFileSizesIsSaid) {
  const FileSizeLimit limit(1'000'000);
  const std::string said = error_of_writing(folder_);
  EXPECT_THAT(said, ::testing::HasSubstr("data.mdb: cannot write to the disk: File too large"));
  EXPECT_THAT(said, ::testing::HasSubstr("ulimit -f"));
}

TEST_F(Lmdb, AFullDiskIsSaid) {
  if (::mount("none", folder_.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "needs the right to mount a small disk: " << std::strerror(errno);
  const std::string said = error_of_writing(folder_);
  EXPECT_EQ(::umount2(folder_.c_str(), MNT_DETACH), 0);
  EXPECT_THAT(
      said, ::testing::HasSubstr("data.mdb: cannot write to the disk: No space left on device: "));
  EXPECT_THAT(said, ::testing::HasSubstr(" to write, "));
  EXPECT_THAT(said, ::testing::HasSubstr(" free; make room"));
}

// LMDB itself, which counts its pages.
class LmdbSizes : public ::testing::TestWithParam<uint64_t> {};

TEST_P(LmdbSizes, AsWrittenByLmdb) {
  const uint64_t value_bytes = GetParam(), entries = 2000;
  const TemporaryDirectory folder;
  MDB_env* environment = nullptr;
  ASSERT_EQ(mdb_env_create(&environment), 0);
  ASSERT_EQ(mdb_env_set_mapsize(environment, size_t(1) << 30), 0);
  ASSERT_EQ(mdb_env_open(environment, folder.path().c_str(), MDB_NOSYNC | MDB_NOLOCK, 0666), 0);
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), 0);
  ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), 0);
  std::string value(value_bytes, 'x');
  for (uint32_t i = 0; i < entries; ++i) {
    uint32_t number = __builtin_bswap32(i);
    MDB_val key = {4, &number}, data = {value.size(), value.data()};
    ASSERT_EQ(mdb_put(transaction, database, &key, &data, MDB_APPEND), 0);
  }
  MDB_stat stat = {};
  ASSERT_EQ(mdb_stat(transaction, database, &stat), 0);
  mdb_txn_abort(transaction);
  mdb_env_close(environment);
  const double pages = double(stat.ms_leaf_pages + stat.ms_overflow_pages);
  EXPECT_NEAR(lmdb_bytes_per_value(value_bytes) * double(entries) / 4096, pages, 1) << value_bytes;
}

// Around the borders: the largest value that stays in a leaf, the one that fills a page.
INSTANTIATE_TEST_SUITE_P(Values, LmdbSizes,
                         ::testing::Values(48, 100, 101, 2025, 2026, 2027, 4080, 4081, 8176, 8177,
                                           48 + 2551 * 4));

}  // namespace
}  // namespace lacuna
