// LMDB. For reading, three small owners: an environment (the file), a read transaction (one
// unchanging view of it) and a cursor (a walk through it); for writing, LmdbWriter. Only the
// unnamed main database is seen.
//
//   const LmdbEnvironment environment("data/lmdb");
//   const LmdbTransaction view(environment);
//   for (LmdbCursor cursor(view); cursor.next();) use(cursor.key(), cursor.value());
//
// Keys and values are views into the mapped file: they stay valid, and may be read from any thread,
// as long as the transaction lives. A transaction and its cursors belong to one thread at a time;
// any number of transactions may share an environment.
//
// No lock file is made or taken for reading, so read-only folders work, and nobody may write to the
// database meanwhile. A file cut short, or with damaged first pages, is refused when it is opened;
// one cut short later is named (core/system/mapped_fault.h). LMDB keeps no checksums, so a damaged
// page inside it can crash whoever reads it: lmdb_records.h and lmdb_child.h read such a database.
//
// Throws Error that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lacuna/core/system/file.h"
#include "lacuna/core/system/mapped_fault.h"

struct MDB_env;  // forward-declared: this header does not pull in lmdb.h
struct MDB_txn;
struct MDB_cursor;

namespace lacuna {

struct LmdbClose {
  void operator()(MDB_env* environment) const;
  void operator()(MDB_txn* transaction) const;
  void operator()(MDB_cursor* cursor) const;
};

// What LMDB writes before a value that has pages of its own. All pages begin with their number.
struct LmdbPageHeader {
  static constexpr uint16_t kOverflow = 4;
  uint64_t page;  // its number: it lies at page * page_bytes of the file
  uint16_t pad, flags;
  uint32_t pages;
};
static_assert(sizeof(LmdbPageHeader) == 16);

// The file of a database: data.mdb in a directory, or the file itself. Throws Error where there is
// none.
fs::path lmdb_data_file(const fs::path& path);

class LmdbEnvironment {
 public:
  // A directory that holds data.mdb, or the database file itself.
  explicit LmdbEnvironment(const fs::path& path);

  const fs::path& path() const { return path_; }
  fs::path data_file() const;
  uint64_t entries() const;
  uint64_t page_bytes() const;
  uint64_t bytes_used() const;  // of the file; bytes after them mean nothing
  MDB_env* get() const { return environment_.get(); }

 private:
  void check_length() const;
  void enter_mapping();

  fs::path path_;
  std::unique_ptr<MDB_env, LmdbClose> environment_;
  std::unique_ptr<const MappedRange> mapping_;
};

class LmdbTransaction {
 public:
  explicit LmdbTransaction(const LmdbEnvironment& environment);

  std::optional<std::span<const std::byte>> get(std::string_view key) const;
  const LmdbEnvironment& environment() const { return environment_; }
  MDB_txn* get() const { return transaction_.get(); }
  unsigned database() const { return database_; }
  bool has_plain_keys() const;  // ordered by their bytes, none of them twice

 private:
  const LmdbEnvironment& environment_;
  std::unique_ptr<MDB_txn, LmdbClose> transaction_;
  unsigned database_ = 0;
};

// Walks all entries in the order of their keys' bytes.
class LmdbCursor {
 public:
  explicit LmdbCursor(const LmdbTransaction& transaction);

  bool next();  // to the first entry, then the one after; false after the last
  std::string_view key() const { return key_; }
  std::span<const std::byte> value() const { return value_; }
  // Where the value lies in the file: LMDB does not say, but the key lies in a page that begins
  // with its own number.
  uint64_t value_offset() const;

 private:
  const LmdbTransaction& transaction_;
  std::unique_ptr<MDB_cursor, LmdbClose> cursor_;
  std::string_view key_;
  std::span<const std::byte> value_;
};

// A database being written, in ascending order of its keys; created where there is none, else
// continued. What is put between begin() and commit() is invisible until commit() returns, and then
// it is on the disk: after a kill or a loss of power the database is that of the last commit.
//
// No lock is taken: the caller sees to it that nobody reads or writes meanwhile. A transaction is
// held in memory, and its pages are written when it is committed: with 64 MB or so the flush costs
// little. An existing database is checked first (check_lmdb_tree of lmdb_records.h): writing into a
// damaged one can crash LMDB.
// Values of half a page or more lie in pages of their own, 16 bytes after the start of the first.
// Where a disk is full, the Error says how much was to be written and how much room is left.
class LmdbWriter {
 public:
  explicit LmdbWriter(const fs::path& directory);

  uint64_t entries() const;
  std::string first_key() const, last_key() const;  // empty where there are no entries
  uint64_t bytes_used() const;                      // of the file, as committed
  // At most this many values, and bytes of all values together, will be appended.
  void begin(uint64_t values, uint64_t bytes);
  void append(std::string_view key, std::span<const std::byte> value);  // keys must ascend
  void commit();

 private:
  std::string key_at(unsigned operation) const;
  [[noreturn]] void refuse_commit(int code) const;

  fs::path path_;
  std::unique_ptr<MDB_env, LmdbClose> environment_;
  std::unique_ptr<MDB_txn, LmdbClose> transaction_;
  unsigned database_ = 0;
  uint64_t bytes_begun_ = 0;  // that the transaction may write
};

// Bytes of the file per value, for many that are appended with keys of 4 bytes: large ones take
// whole pages of their own (LMDB uses 16 bytes of them), small ones share leaves.
double lmdb_bytes_per_value(uint64_t value_bytes);

// Throws Error("path: what: LMDB's words") unless code is 0.
void check_lmdb(int code, const fs::path& path, const char* what);

}  // namespace lacuna
