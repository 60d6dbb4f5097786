#include "lacuna/store/lmdb_records.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/store/lmdb.h"
#include "lacuna/store/lmdb_child.h"

namespace lacuna {
namespace {

constexpr uint64_t kChunk = 64;  // entries that are sent at once
constexpr size_t kReceiveBytes = 64 << 10;

Error damaged(const fs::path& path, const std::string& what) {
  return Error("{}: {}: its pages are damaged; restore it from a copy (`mdb_copy` makes one)",
               path.string(), what);
}

// What the child sends: `entries` once, then `record`s, then `end`; or `error`, and then its text.
struct Frame {
  enum Kind : uint32_t { entries, record, end, error };
  Kind kind;
  uint32_t key_bytes = 0;  // of an error: of its text
  uint64_t key_offset = 0;
  uint64_t value_offset = 0;
  uint64_t value_bytes = 0;  // of `entries`: how many there are
};

// ---- the child

// Where things lie in the file. LMDB does not say where it mapped it, but every page begins with
// its own number, so each tells where the file begins; a page that disagrees is damaged.
class FilePlaces {
 public:
  FilePlaces(const fs::path& path, uint64_t page_bytes) : path_(path), page_bytes_(page_bytes) {}

  uint64_t of_key(std::string_view key) { return place(key.data()); }

  // In the page of its key, or 16 bytes after the start of pages of its own.
  uint64_t of_value(std::span<const std::byte> value, std::string_view key) {
    if (value.empty()) return of_key(key) + key.size();  // may stand at the end of the page
    const uintptr_t page = page_of(value.data());
    if (page != page_of(key.data()) && !fills_pages(page, value))
      throw damaged(path_, fmt::format("the value of key '{}' is not where it should be", key));
    return place(value.data());
  }

 private:
  uintptr_t page_of(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at - at % page_bytes_;
  }

  bool fills_pages(uintptr_t page, std::span<const std::byte> value) const {
    LmdbPageHeader header;
    std::memcpy(&header, reinterpret_cast<const void*>(page), sizeof header);
    return reinterpret_cast<uintptr_t>(value.data()) == page + sizeof header &&
           header.flags == LmdbPageHeader::kOverflow &&
           header.pages == (sizeof header + value.size() + page_bytes_ - 1) / page_bytes_;
  }

  uint64_t place(const void* address) {
    const uintptr_t page = page_of(address);
    uint64_t number;
    std::memcpy(&number, reinterpret_cast<const void*>(page), sizeof number);
    const uintptr_t start = page - number * page_bytes_;
    if (start_ == 0) start_ = start;
    if (start != start_)
      throw damaged(path_, fmt::format("page {} says that it is page {}",
                                       (page - start_) / page_bytes_, number));
    return reinterpret_cast<uintptr_t>(address) - start;
  }

  const fs::path& path_;
  uint64_t page_bytes_;
  uintptr_t start_ = 0;  // of the file, in memory; 0: not known yet
};

class RecordSender {
 public:
  RecordSender(int fd, const fs::path& path, bool with_values)
      : fd_(fd), path_(path), with_values_(with_values) {}

  void run() {
    limit_lmdb_work(kLongLmdbWork);
    const LmdbEnvironment environment(path_);
    const LmdbTransaction view(environment);
    const uint64_t entries = environment.entries();
    const bool in_order = view.has_plain_keys();
    put({.kind = Frame::entries, .value_bytes = entries});
    FilePlaces places(path_, environment.page_bytes());
    std::string last;
    uint64_t count = 0;
    for (LmdbCursor cursor(view); cursor.next(); ++count) {
      const std::string_view key = cursor.key();
      if (count == entries)
        throw damaged(path_, fmt::format("{} entries stated, and more found", entries));
      if (count > 0 && key <= last && in_order)
        throw damaged(path_, fmt::format("key '{}' stands behind key '{}'", key, last));
      last = key;
      Frame frame = {.kind = Frame::record,
                     .key_bytes = uint32_t(key.size()),
                     .key_offset = places.of_key(key)};
      if (with_values_) {
        frame.value_offset = places.of_value(cursor.value(), key);
        frame.value_bytes = cursor.value().size();
      }
      put(frame);
      if (count % kChunk == kChunk - 1) flush();
    }
    if (count != entries)
      throw damaged(path_, fmt::format("{} entries stated, {} found", entries, count));
    put({.kind = Frame::end});
    flush();
  }

  void refuse(std::string_view words) {
    put({.kind = Frame::error, .key_bytes = uint32_t(words.size())});
    const auto text = std::as_bytes(std::span(words));
    buffer_.insert(buffer_.end(), text.begin(), text.end());
    flush();
  }

 private:
  void put(const Frame& frame) {
    const auto bytes = std::as_bytes(std::span(&frame, 1));
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    send_to_parent(fd_, buffer_);
    buffer_.clear();
    limit_lmdb_work(kLongLmdbWork);
  }

  int fd_;
  const fs::path& path_;
  bool with_values_;
  std::vector<std::byte> buffer_;
};

void send_records(int fd, const fs::path& path, bool with_values) {
  RecordSender sender(fd, path, with_values);
  try {
    sender.run();
  } catch (const std::exception& error) {
    sender.refuse(error.what());
  }
}

}  // namespace

// ---- the parent

struct LmdbRecords::State {
  State(const fs::path& database, bool with_values)
      : path(database),
        file(lmdb_data_file(database)),
        child([&](int fd) { send_records(fd, path, with_values); }) {
    const Frame frame = take_frame();
    entries = frame.value_bytes;
  }

  // Throws Error with the child's message, or when the child died.
  Frame take_frame() {
    Frame frame;
    std::memcpy(&frame, take(sizeof frame).data(), sizeof frame);
    if (frame.kind != Frame::error) return frame;
    const auto text = take(frame.key_bytes);
    throw Error(std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  }

  // The next bytes that the child has sent; valid until the next call.
  std::span<const std::byte> take(size_t bytes) {
    while (buffer.size() - begin < bytes) {
      buffer.erase(buffer.begin(), buffer.begin() + ptrdiff_t(begin));
      begin = 0;
      const size_t had = buffer.size();
      buffer.resize(had + kReceiveBytes);
      const size_t got = child.read(std::span(buffer).subspan(had));
      buffer.resize(had + got);
      if (got == 0) refuse_death();
    }
    begin += bytes;
    return std::span<const std::byte>(buffer).subspan(begin - bytes, bytes);
  }

  [[noreturn]] void refuse_death() {
    const std::string at = key.empty() ? "its first page" : fmt::format("soon after key '{}'", key);
    throw damaged(path,
                  fmt::format("LMDB could not be read on {}{} ({})", key.empty() ? "from " : "", at,
                              child.death().value_or("it ended")));
  }

  std::span<const std::byte> piece(uint64_t offset, uint64_t bytes) const {
    const auto all = file.bytes();
    if (offset > all.size() || bytes > all.size() - offset)
      throw damaged(path,
                    fmt::format("{} bytes at byte {} of a file of {}", bytes, offset, all.size()));
    return all.subspan(offset, bytes);
  }

  bool next() {
    if (is_done) return false;
    const Frame frame = take_frame();
    if (frame.kind == Frame::end) return !(is_done = true);
    const auto text = piece(frame.key_offset, frame.key_bytes);
    key = {reinterpret_cast<const char*>(text.data()), text.size()};
    value = piece(frame.value_offset, frame.value_bytes);
    return true;
  }

  fs::path path;
  MappedFile file;
  LmdbChild child;
  uint64_t entries = 0;
  std::string_view key;
  std::span<const std::byte> value;
  bool is_done = false;
  std::vector<std::byte> buffer;  // from `begin` on it is unread
  size_t begin = 0;
};

LmdbRecords::LmdbRecords(const fs::path& path) : LmdbRecords(path, true) {}
LmdbRecords::LmdbRecords(const fs::path& path, bool with_values)
    : state_(std::make_unique<State>(path, with_values)) {}
LmdbRecords::~LmdbRecords() = default;

uint64_t LmdbRecords::entries() const { return state_->entries; }
uint64_t LmdbRecords::file_bytes() const { return state_->file.bytes().size(); }
bool LmdbRecords::next() { return state_->next(); }
std::string_view LmdbRecords::key() const { return state_->key; }
std::span<const std::byte> LmdbRecords::value() const { return state_->value; }

void check_lmdb_tree(const fs::path& path) {
  LmdbRecords records(path, false);
  while (records.next()) throw_if_stopped();
}

}  // namespace lacuna
