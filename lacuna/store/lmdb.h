// LMDB for reading, in three small owners: an environment (the file), a read transaction (one
// unchanging view of it) and a cursor (a walk through it). Only the unnamed main database is seen.
//
//   const LmdbEnvironment environment("data/lmdb");
//   const LmdbTransaction view(environment);
//   for (LmdbCursor cursor(view); cursor.next();) use(cursor.key(), cursor.value());
//
// Keys and values are views into the mapped file: they stay valid, and may be read from any thread,
// as long as the transaction lives. A transaction and its cursors belong to one thread at a time;
// any number of transactions may share an environment. Open a path once in a process.
//
// No lock file is made or taken, so read-only folders work, and nobody may write to the database
// meanwhile. A file cut short is refused when it is opened; LMDB keeps no checksums, so a damaged
// page inside it can crash whoever reads it.
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

#include "lacuna/core/file.h"

struct MDB_env;  // of lmdb.h, which who includes this need not have
struct MDB_txn;
struct MDB_cursor;

namespace lacuna {

struct LmdbClose {
  void operator()(MDB_env* environment) const;
  void operator()(MDB_txn* transaction) const;
  void operator()(MDB_cursor* cursor) const;
};

class LmdbEnvironment {
 public:
  // A directory that holds data.mdb, or the database file itself.
  explicit LmdbEnvironment(const fs::path& path);

  const fs::path& path() const { return path_; }
  fs::path data_file() const;
  uint64_t entries() const;
  MDB_env* get() const { return environment_.get(); }

 private:
  void check_length() const;

  fs::path path_;
  std::unique_ptr<MDB_env, LmdbClose> environment_;
};

class LmdbTransaction {
 public:
  explicit LmdbTransaction(const LmdbEnvironment& environment);

  std::optional<std::span<const std::byte>> get(std::string_view key) const;
  const LmdbEnvironment& environment() const { return environment_; }
  MDB_txn* get() const { return transaction_.get(); }
  unsigned database() const { return database_; }

 private:
  const LmdbEnvironment& environment_;
  std::unique_ptr<MDB_txn, LmdbClose> transaction_;
  unsigned database_ = 0;
};

// Walks all entries in the order of their keys' bytes.
class LmdbCursor {
 public:
  explicit LmdbCursor(const LmdbTransaction& transaction);

  bool next();  // to the first entry, then the one after; false behind the last
  std::string_view key() const { return key_; }
  std::span<const std::byte> value() const { return value_; }

 private:
  const LmdbTransaction& transaction_;
  std::unique_ptr<MDB_cursor, LmdbClose> cursor_;
  std::string_view key_;
  std::span<const std::byte> value_;
};

// Throws Error("path: what: LMDB's words") unless code is 0.
void check_lmdb(int code, const fs::path& path, const char* what);

}  // namespace lacuna
