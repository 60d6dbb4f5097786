// All entries of an LMDB that may be damaged, in the order of their keys' bytes.
//
//   LmdbRecords records("data/lmdb");
//   while (records.next()) use(records.key(), records.value());
//
// A child process walks through LMDB's tree (lmdb_child.h) and sends where keys and values lie;
// they are read here, from the mapped file, so nothing is copied and the child runs ahead. Nobody
// may write to the database meanwhile.
//
// Throws Error that names the database: where there is none, or it is cut short; where its pages
// are damaged, whether LMDB says so, crashes or goes in circles; where keys are not in order or a
// page is not the one it says it is; and where it holds fewer or more entries than it says, with
// both numbers. What lies inside a key or a value cannot be checked here: LMDB has no checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lacuna/core/system/file.h"

namespace lacuna {

class LmdbRecords {
 public:
  // A directory that holds data.mdb, or the database file itself.
  explicit LmdbRecords(const fs::path& path);
  ~LmdbRecords();

  uint64_t entries() const;     // how many the database says there are
  uint64_t file_bytes() const;  // of its file

  bool next();  // to the first entry, then the one after; false after the last
  // Views into the mapped file, as long as this lives.
  std::string_view key() const;
  std::span<const std::byte> value() const;

 private:
  friend void check_lmdb_tree(const fs::path& path);
  LmdbRecords(const fs::path& path, bool with_values);

  struct State;
  std::unique_ptr<State> state_;
};

// Throws Error as above where LMDB's tree is damaged. Values in pages of their own are not touched,
// so this is quick where values are large.
void check_lmdb_tree(const fs::path& path);

}  // namespace lacuna
