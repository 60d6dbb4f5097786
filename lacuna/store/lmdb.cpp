#include "lacuna/store/lmdb.h"

#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/store/lmdb_records.h"

namespace lacuna {
namespace {

MDB_env* create_environment(const fs::path& path) {
  MDB_env* environment = nullptr;
  check_lmdb(mdb_env_create(&environment), path, "cannot start LMDB");
  return environment;
}

MDB_stat stat_of(MDB_env* environment, const fs::path& path) {
  MDB_stat stat = {};
  check_lmdb(mdb_env_stat(environment, &stat), path, "cannot read its size");
  return stat;
}

MDB_envinfo info_of(MDB_env* environment, const fs::path& path) {
  MDB_envinfo info = {};
  check_lmdb(mdb_env_info(environment, &info), path, "cannot read its size");
  return info;
}

uint64_t used_bytes(MDB_env* environment, const fs::path& path) {
  return (uint64_t(info_of(environment, path).me_last_pgno) + 1) *
         stat_of(environment, path).ms_psize;
}

// A file's first two pages say how large pages are and where the tree begins. LMDB divides by that
// size without checking it.
struct FirstPage {
  LmdbPageHeader header;
  uint32_t magic, version;
  uint64_t address, map_bytes;
  uint32_t page_bytes;
  uint32_t rest_of_trees[23];
  uint64_t last_page, transaction;
};
static_assert(offsetof(FirstPage, page_bytes) == 40 && offsetof(FirstPage, transaction) == 144);

// Transactions take the two pages in turn, and LMDB goes by the one with the larger number: where
// that is damaged it reads an older state, in which records are missing.
bool are_in_turn(const FirstPage& first, const FirstPage& second) {
  const uint64_t even = first.transaction, odd = second.transaction;
  if (even == 0 && odd == 0)  // nothing was written yet
    return first.last_page <= 1 && second.last_page <= 1;
  if (even % 2 != 0 || odd % 2 != 1 || (odd != even + 1 && odd + 1 != even)) return false;
  return (odd > even) ? second.last_page >= first.last_page : first.last_page >= second.last_page;
}

void check_first_pages(const fs::path& file) {
  const MappedFile mapped(file);
  const auto bytes = mapped.bytes();
  FirstPage page;
  if (bytes.size() < sizeof page) return;  // cut short: LMDB or check_length() says so
  std::memcpy(&page, bytes.data(), sizeof page);
  constexpr uint32_t kMagic = 0xbeefc0de;
  const uint64_t size = page.page_bytes;
  const bool is_size = size >= 256 && size <= 65536 && (size & (size - 1)) == 0;
  if (page.magic == kMagic && !is_size)
    throw Error("{}: pages of {} bytes: its first page is damaged; restore it from a copy",
                file.string(), size);
  if (page.magic != kMagic || bytes.size() < size + sizeof page) return;
  FirstPage second;
  std::memcpy(&second, bytes.data() + size, sizeof second);
  if (second.magic != kMagic || second.page_bytes != size)
    throw Error("{}: its second page is damaged; restore it from a copy", file.string());
  if (!are_in_turn(page, second))
    throw Error(
        "{}: its first two pages do not say which of them is newer (transactions {} and {}): one "
        "is damaged; restore it from a copy",
        file.string(), page.transaction, second.transaction);
}

std::span<const std::byte> bytes_of(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}

}  // namespace

void LmdbClose::operator()(MDB_env* environment) const { mdb_env_close(environment); }
void LmdbClose::operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
void LmdbClose::operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }

fs::path lmdb_data_file(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? path / "data.mdb" : path;
  if (!fs::is_regular_file(file))
    throw Error("{}: no LMDB here ({} is not a file)", path.string(), file.string());
  return file;
}

void check_lmdb(int code, const fs::path& path, const char* what) {
  if (code != MDB_SUCCESS) throw Error("{}: {}: {}", path.string(), what, mdb_strerror(code));
}

LmdbEnvironment::LmdbEnvironment(const fs::path& path)
    : path_(path), environment_(create_environment(path)) {
  const fs::path file = lmdb_data_file(path);
  check_first_pages(file);
  unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS;
  if (file == path) flags |= MDB_NOSUBDIR;
  check_lmdb(mdb_env_open(get(), path.c_str(), flags, 0644), path, "cannot open as LMDB");
  check_length();
  enter_mapping();
}

fs::path LmdbEnvironment::data_file() const { return lmdb_data_file(path_); }

// LMDB does not say where it has mapped its file; the system does, by the file's name.
void LmdbEnvironment::enter_mapping() {
  int fd = -1;
  check_lmdb(mdb_env_get_fd(get(), &fd), path_, "cannot read its size");
  std::error_code error;
  const std::string name = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd), error).string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; !error && std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (!line.ends_with(" " + name) || std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2)
      continue;
    const auto* const address = reinterpret_cast<const void*>(begin);
    if (is_mapped_range(address)) continue;  // another mapping of the same file
    mapping_ = std::make_unique<const MappedRange>(address, end - begin, data_file());
    return;
  }
}

// Touching a page beyond the end of the file would be a bus error.
void LmdbEnvironment::check_length() const {
  const uint64_t needed = bytes_used();
  const uint64_t there = fs::file_size(data_file());
  if (there < needed)
    throw Error("{}: cut short: {} bytes of {}; copy it again", data_file().string(), there,
                needed);
}

uint64_t LmdbEnvironment::entries() const { return stat_of(get(), path_).ms_entries; }
uint64_t LmdbEnvironment::page_bytes() const { return stat_of(get(), path_).ms_psize; }
uint64_t LmdbEnvironment::bytes_used() const { return used_bytes(get(), path_); }

LmdbTransaction::LmdbTransaction(const LmdbEnvironment& environment) : environment_(environment) {
  MDB_txn* transaction = nullptr;
  check_lmdb(mdb_txn_begin(environment.get(), nullptr, MDB_RDONLY, &transaction),
             environment.path(), "cannot begin to read");
  transaction_.reset(transaction);
  check_lmdb(mdb_dbi_open(transaction, nullptr, 0, &database_), environment.path(),
             "cannot open its main database");
}

bool LmdbTransaction::has_plain_keys() const {
  unsigned flags = 0;
  check_lmdb(mdb_dbi_flags(get(), database_, &flags), environment_.path(), "cannot read its flags");
  return (flags & (MDB_REVERSEKEY | MDB_DUPSORT | MDB_INTEGERKEY)) == 0;
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

uint64_t LmdbCursor::value_offset() const {
  const uint64_t page_bytes = transaction_.environment().page_bytes();
  const auto key = reinterpret_cast<uintptr_t>(key_.data());
  uint64_t number;
  std::memcpy(&number, reinterpret_cast<const void*>(key - key % page_bytes), sizeof number);
  const uintptr_t start_of_file = key - key % page_bytes - number * page_bytes;
  return reinterpret_cast<uintptr_t>(value_.data()) - start_of_file;
}

// ---- writing

LmdbWriter::LmdbWriter(const fs::path& directory)
    : path_(directory), environment_(create_environment(directory)) {
  const fs::path file = directory / "data.mdb";
  const uint64_t two_pages = 2 * uint64_t(::sysconf(_SC_PAGESIZE));
  if (fs::exists(file) && fs::file_size(file) < two_pages)
    fs::remove(file);  // its writer ended while creating it: nothing is in it
  if (fs::exists(file)) check_lmdb_tree(directory);
  check_lmdb(mdb_env_open(environment_.get(), directory.c_str(), MDB_NOLOCK, 0666), directory,
             "cannot write an LMDB here");
}

uint64_t LmdbWriter::entries() const { return stat_of(environment_.get(), path_).ms_entries; }
uint64_t LmdbWriter::bytes_used() const { return used_bytes(environment_.get(), path_); }

std::string LmdbWriter::key_at(unsigned operation) const {
  LACUNA_ASSERT(!transaction_);
  MDB_txn* begun = nullptr;
  check_lmdb(mdb_txn_begin(environment_.get(), nullptr, MDB_RDONLY, &begun), path_,
             "cannot begin to read");
  const std::unique_ptr<MDB_txn, LmdbClose> transaction(begun);
  unsigned database = 0;
  check_lmdb(mdb_dbi_open(begun, nullptr, 0, &database), path_, "cannot open its main database");
  MDB_cursor* opened = nullptr;
  check_lmdb(mdb_cursor_open(begun, database, &opened), path_, "cannot walk through it");
  const std::unique_ptr<MDB_cursor, LmdbClose> cursor(opened);
  MDB_val key = {}, value = {};
  const int code = mdb_cursor_get(opened, &key, &value, MDB_cursor_op(operation));
  if (code == MDB_NOTFOUND) return {};
  check_lmdb(code, path_, "cannot read a key");
  return {static_cast<const char*>(key.mv_data), key.mv_size};
}

std::string LmdbWriter::first_key() const { return key_at(MDB_FIRST); }
std::string LmdbWriter::last_key() const { return key_at(MDB_LAST); }

void LmdbWriter::begin(uint64_t values, uint64_t bytes) {
  LACUNA_ASSERT(!transaction_);
  // A value wastes up to a page, and one path of the tree's pages is rewritten.
  const uint64_t page = stat_of(environment_.get(), path_).ms_psize;
  bytes_begun_ = bytes + values * (page + page / 16) + 128 * page;
  const uint64_t needed = bytes_used() + bytes_begun_;
  const uint64_t mapped = info_of(environment_.get(), path_).me_mapsize;
  if (needed > mapped)
    check_lmdb(mdb_env_set_mapsize(environment_.get(), std::max(needed, 2 * mapped)), path_,
               "cannot map more of it into memory");
  MDB_txn* begun = nullptr;
  check_lmdb(mdb_txn_begin(environment_.get(), nullptr, 0, &begun), path_, "cannot begin to write");
  transaction_.reset(begun);
  check_lmdb(mdb_dbi_open(begun, nullptr, 0, &database_), path_, "cannot open its main database");
}

void LmdbWriter::append(std::string_view key, std::span<const std::byte> value) {
  LACUNA_ASSERT(transaction_);
  MDB_val put_key = {key.size(), const_cast<char*>(key.data())};
  MDB_val put_value = {value.size(), const_cast<std::byte*>(value.data())};
  check_lmdb(mdb_put(transaction_.get(), database_, &put_key, &put_value, MDB_APPEND), path_,
             "cannot write a value");
}

void LmdbWriter::commit() {
  LACUNA_ASSERT(transaction_);
  const int code = mdb_txn_commit(transaction_.release());
  if (code != MDB_SUCCESS) refuse_commit(code);
}

// LMDB reports a write that stops half-way as "Input/output error", whatever stopped it: a full
// disk, a quota, a limit on file sizes. Writing a little more, after the end, tells which.
void LmdbWriter::refuse_commit(int code) const {
  constexpr size_t kProbe = 64 << 10;
  const fs::path file = path_ / "data.mdb";
  int cause = code;
  const int fd = code == EIO ? ::open(file.c_str(), O_WRONLY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    const off_t end = ::lseek(fd, 0, SEEK_END);
    const std::string zeros(kProbe, '\0');
    size_t written = 0;
    for (ssize_t more = 1; more > 0 && written < kProbe;
         written += size_t(std::max<ssize_t>(0, more)))
      if ((more = ::pwrite(fd, zeros.data(), kProbe - written, end + off_t(written))) < 0)
        cause = errno;
    (void)!::ftruncate(fd, end);
    ::close(fd);
  }
  if (cause == ENOSPC || cause == EDQUOT)
    throw Error(
        "{}: cannot write to the disk: {}: up to {} to write, {} free; make room, and run "
        "the same command again",
        file.string(), std::strerror(cause), format_bytes(bytes_begun_),
        format_bytes(free_disk_bytes(path_)));
  if (cause == EFBIG)
    throw Error(
        "{}: cannot write to the disk: {}: up to {} to write behind {}; raise the limit "
        "(`ulimit -f`), and run the same command again",
        file.string(), std::strerror(cause), format_bytes(bytes_begun_),
        format_bytes(bytes_used()));
  check_lmdb(cause, file, "cannot write to the disk");
  LACUNA_ASSERT(false);
}

// LMDB's own rules, for pages of 4096 bytes: a node is 8 bytes, key and value; one that would not
// leave room for a second on its page puts its value on pages of its own and keeps their number.
double lmdb_bytes_per_value(uint64_t value_bytes) {
  constexpr uint64_t kPage = 4096, kPageHeader = 16, kRoom = kPage - kPageHeader;
  constexpr uint64_t kNode = 8 + 4, kLargestNode = kRoom / 2 - 2, kPageNumber = 8, kPlace = 2;
  const bool own_pages = kNode + value_bytes > kLargestNode;
  const uint64_t node = kNode + (own_pages ? kPageNumber : value_bytes);
  const uint64_t in_leaf = kRoom / (node + node % 2 + kPlace);
  const uint64_t pages = own_pages ? (kPageHeader + value_bytes + kPage - 1) / kPage : 0;
  return double(pages * kPage) + double(kPage) / double(in_leaf);
}

}  // namespace lacuna
