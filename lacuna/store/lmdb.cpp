#include "lacuna/store/lmdb.h"

#include <lmdb.h>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

MDB_env* create_environment(const fs::path& path) {
  MDB_env* environment = nullptr;
  check_lmdb(mdb_env_create(&environment), path, "cannot start LMDB");
  return environment;
}

std::span<const std::byte> bytes_of(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}

}  // namespace

void LmdbClose::operator()(MDB_env* environment) const { mdb_env_close(environment); }
void LmdbClose::operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
void LmdbClose::operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }

void check_lmdb(int code, const fs::path& path, const char* what) {
  if (code != MDB_SUCCESS) throw Error("{}: {}: {}", path.string(), what, mdb_strerror(code));
}

LmdbEnvironment::LmdbEnvironment(const fs::path& path)
    : path_(path), environment_(create_environment(path)) {
  const fs::path file = data_file();
  if (!fs::is_regular_file(file))
    throw Error("{}: no LMDB here ({} is not a file)", path.string(), file.string());
  unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS;
  if (file == path) flags |= MDB_NOSUBDIR;
  check_lmdb(mdb_env_open(get(), path.c_str(), flags, 0644), path, "cannot open as LMDB");
  check_length();
}

fs::path LmdbEnvironment::data_file() const {
  return fs::is_directory(path_) ? path_ / "data.mdb" : path_;
}

// A page behind the end of the file would be a bus error when it is touched.
void LmdbEnvironment::check_length() const {
  MDB_envinfo info = {};
  MDB_stat stat = {};
  check_lmdb(mdb_env_info(get(), &info), path_, "cannot read its size");
  check_lmdb(mdb_env_stat(get(), &stat), path_, "cannot read its size");
  const uint64_t needed = (uint64_t(info.me_last_pgno) + 1) * stat.ms_psize;
  const uint64_t there = fs::file_size(data_file());
  if (there < needed)
    throw Error("{}: cut short: {} bytes of {}; copy it again", data_file().string(), there,
                needed);
}

uint64_t LmdbEnvironment::entries() const {
  MDB_stat stat = {};
  check_lmdb(mdb_env_stat(get(), &stat), path_, "cannot count its entries");
  return stat.ms_entries;
}

LmdbTransaction::LmdbTransaction(const LmdbEnvironment& environment) : environment_(environment) {
  MDB_txn* transaction = nullptr;
  check_lmdb(mdb_txn_begin(environment.get(), nullptr, MDB_RDONLY, &transaction),
             environment.path(), "cannot begin to read");
  transaction_.reset(transaction);
  check_lmdb(mdb_dbi_open(transaction, nullptr, 0, &database_), environment.path(),
             "cannot open its main database");
}

std::optional<std::span<const std::byte>> LmdbTransaction::get(std::string_view key) const {
  MDB_val wanted = {key.size(), const_cast<char*>(key.data())};
  MDB_val value = {};
  const int code = mdb_get(get(), database_, &wanted, &value);
  if (code == MDB_NOTFOUND) return std::nullopt;
  check_lmdb(code, environment_.path(), "cannot read a value");
  return bytes_of(value);
}

LmdbCursor::LmdbCursor(const LmdbTransaction& transaction) : transaction_(transaction) {
  MDB_cursor* cursor = nullptr;
  check_lmdb(mdb_cursor_open(transaction.get(), transaction.database(), &cursor),
             transaction.environment().path(), "cannot walk through it");
  cursor_.reset(cursor);
}

bool LmdbCursor::next() {
  MDB_val key = {}, value = {};
  const int code = mdb_cursor_get(cursor_.get(), &key, &value, MDB_NEXT);
  if (code == MDB_NOTFOUND) return false;
  check_lmdb(code, transaction_.environment().path(), "cannot read on");
  key_ = {static_cast<const char*>(key.mv_data), key.mv_size};
  value_ = bytes_of(value);
  return true;
}

}  // namespace lacuna
