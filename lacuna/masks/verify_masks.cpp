#include "lacuna/masks/verify_masks.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/masks/prepare_masks.h"
#include "lacuna/masks/store_pages.h"
#include "lacuna/store/directory_lock.h"
#include "lacuna/store/lmdb.h"
#include "lacuna/store/lmdb_child.h"

namespace lacuna {
namespace {

constexpr uint64_t kChunk = 64;  // samples that are compared side by side

std::vector<uint64_t> choose_samples(const MaskStoreContents& contents,
                                     const VerifyOptions& options) {
  const uint64_t count = contents.end - contents.begin;
  if (options.sample) {
    if (*options.sample < contents.begin || *options.sample >= contents.end)
      throw Error("sample {} asked for, but the store holds {} to {}", *options.sample,
                  contents.begin, contents.end - 1);
    return {*options.sample};
  }
  if (options.all || count <= options.random_samples) {
    std::vector<uint64_t> all(count);
    std::iota(all.begin(), all.end(), contents.begin);
    return all;
  }
  std::set<uint64_t> chosen = {contents.begin, contents.end - 1};
  Random random(options.seed);
  while (chosen.size() < options.random_samples)
    chosen.insert(contents.begin + random.below(count));
  return {chosen.begin(), chosen.end()};
}

// ---- one value

// Compares values with what they should be. Runs in the child.
class ValueChecker {
 public:
  ValueChecker(const Screen& screen, const MaskStoreContents& contents, const fs::path& data,
               uint64_t page_bytes)
      : removed_(screen.samples()),
        encoder_(RemovalRules(screen.graph(), contents.view), contents.form),
        file_(data),
        page_bytes_(page_bytes) {}

  // What is wrong with the value of a sample; empty where nothing is.
  std::string fault(uint64_t sample, std::span<const std::byte> value) const {
    thread_local std::vector<std::byte> expected;
    encode_value(encoder_, removed_, sample, expected);
    if (value.data() == nullptr) return fmt::format("sample {}: missing", sample);
    if (value.size() != expected.size())
      return fmt::format("sample {}: {} bytes, {} expected", sample, value.size(), expected.size());
    const auto [at, other] = std::mismatch(value.begin(), value.end(), expected.begin());
    if (at != value.end()) return changed(sample, value, uint64_t(at - value.begin()));
    if (!has_right_page(value))
      return fmt::format("sample {}: the 16 bytes of LMDB before its value have changed", sample);
    if (!ends_in_zeros(value))
      return fmt::format("sample {}: bytes behind its value have changed", sample);
    return "";
  }

 private:
  static bool has_own_pages(std::span<const std::byte> value, uint64_t page_bytes) {
    return reinterpret_cast<uintptr_t>(value.data()) % page_bytes == sizeof(LmdbPageHeader);
  }

  bool has_right_page(std::span<const std::byte> value) const {
    if (!has_own_pages(value, page_bytes_)) return true;  // in a page of the tree
    const LmdbPageHeader header = page_of(value);
    const uint64_t bytes = sizeof header + value.size();
    return header.pad == 0 && header.flags == LmdbPageHeader::kOverflow &&
           header.pages == (bytes + page_bytes_ - 1) / page_bytes_ && lies_in(header.page, value);
  }

  // What follows a value in its last page. LMDB clears the last of several pages before it writes
  // to it; a page that holds a value alone may come from an earlier one, and shows what that was.
  bool ends_in_zeros(std::span<const std::byte> value) const {
    const uint64_t used = (sizeof(LmdbPageHeader) + value.size()) % page_bytes_;
    if (!has_own_pages(value, page_bytes_) || page_of(value).pages < 2 || used == 0) return true;
    const std::byte* const end = value.data() + value.size();
    return std::all_of(end, end + (page_bytes_ - used),
                       [](std::byte byte) { return byte == std::byte(0); });
  }

  static LmdbPageHeader page_of(std::span<const std::byte> value) {
    LmdbPageHeader header;
    std::memcpy(&header, value.data() - sizeof header, sizeof header);
    return header;
  }

  // Whether the value lies in this page of the file; values differ by the sample in their header.
  bool lies_in(uint64_t page, std::span<const std::byte> value) const {
    const auto file = file_.bytes();
    if (page >= file.size() / page_bytes_) return false;
    const uint64_t offset = page * page_bytes_ + sizeof(LmdbPageHeader);
    return value.size() <= file.size() - offset &&
           std::memcmp(file.data() + offset, value.data(), sizeof(MaskHeader)) == 0;
  }

  std::string changed(uint64_t sample, std::span<const std::byte> value, uint64_t at) const {
    std::string where;
    if (has_own_pages(value, page_bytes_) && lies_in(page_of(value).page, value))
      where = fmt::format(", byte {} of {}",
                          page_of(value).page * page_bytes_ + sizeof(LmdbPageHeader) + at,
                          StorePages::kData);
    MaskHeader header;
    std::memcpy(&header, value.data(), sizeof header);
    const uint64_t bytes = value.size() - sizeof header;
    const bool as_written = header == MaskHeader{.form = uint32_t(encoder_.form()),
                                                 .sample = sample,
                                                 .xxh3 = hash64(value.subspan(sizeof header)),
                                                 .bytes = bytes};
    if (as_written)
      return fmt::format("sample {}: a whole record, but not the one of this screen", sample);
    if (at < sizeof(MaskHeader))
      return fmt::format("sample {}: its header has changed (byte {} of 48{})", sample, at, where);
    return fmt::format("sample {}: its record has changed (byte {} of {}{})", sample,
                       at - sizeof header, bytes, where);
  }

  RemovedReader removed_;
  MaskEncoder encoder_;
  MappedFile file_;
  uint64_t page_bytes_;
};

// ---- the child

// A line for the parent: a letter for its kind, and text.
void send(int fd, char kind, const std::string& text) {
  std::string line = kind + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  send_to_parent(fd, std::as_bytes(std::span(line)));
}

void check_values(int fd, const Screen& screen, const fs::path& store,
                  const MaskStoreContents& contents, const std::vector<uint64_t>& samples) {
  const LmdbEnvironment environment(store);
  const LmdbTransaction view(environment);
  const uint64_t expected = contents.end - contents.begin;
  if (environment.entries() != expected)
    send(fd, 'F',
         fmt::format("{}: {} values, {} expected", environment.data_file().string(),
                     environment.entries(), expected));
  const ValueChecker checker(screen, contents, environment.data_file(), environment.page_bytes());
  for (uint64_t first = 0; first < samples.size(); first += kChunk) {
    const uint64_t count = std::min(kChunk, samples.size() - first);
    send(fd, 'S', fmt::format("samples {} to {}", samples[first], samples[first + count - 1]));
    std::vector<std::span<const std::byte>> values(count);
    std::vector<std::string> faults(count);
    limit_lmdb_work(kLongLmdbWork);
    for (uint64_t i = 0; i < count; ++i) {
      try {
        values[i] = view.get(mask_key(samples[first + i])).value_or(values[i]);
      } catch (const Error& error) {
        faults[i] = fmt::format("sample {}: {}", samples[first + i], error.what());
      }
    }
    limit_lmdb_work(0);
    parallel_for(count, 0, [&](uint64_t i) {
      if (faults[i].empty()) faults[i] = checker.fault(samples[first + i], values[i]);
    });
    for (const auto& fault : faults)
      if (!fault.empty()) send(fd, 'F', fault);
    send(fd, 'P', std::to_string(first + count));
  }
}

class LineReader {
 public:
  explicit LineReader(LmdbChild& child) : child_(child) {}

  std::optional<std::string> next() {
    for (size_t end; (end = buffer_.find('\n')) == buffer_.npos;) {
      std::byte piece[4096];
      const size_t got = child_.read(piece);
      if (got == 0) return std::nullopt;
      buffer_.append(reinterpret_cast<const char*>(piece), got);
    }
    const size_t end = buffer_.find('\n');
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

 private:
  LmdbChild& child_;
  std::string buffer_;
};

void add_fault(VerifyResult& result, std::string fault) {
  ++result.fault_count;
  if (result.faults.size() < VerifyResult::kMostFaults) result.faults.push_back(std::move(fault));
}

void check_values_in_child(VerifyResult& result, const Screen& screen, const fs::path& store,
                           const std::vector<uint64_t>& samples, Progress& progress) {
  progress.begin("verifying", samples.size(), "samples");
  LmdbChild child([&](int fd) {
    try {
      check_values(fd, screen, store, result.contents, samples);
    } catch (const std::exception& error) {
      send(fd, 'F', error.what());
    }
  });
  std::string at = "the first page";
  LineReader lines(child);
  while (const auto line = lines.next()) {
    const std::string text = line->substr(1);
    if ((*line)[0] == 'F') add_fault(result, text);
    if ((*line)[0] == 'S') at = text;
    if ((*line)[0] == 'P') progress.advance(result.samples = std::stoull(text));
  }
  progress.end();
  if (const auto death = child.death())
    add_fault(result, fmt::format("{}: LMDB could not be read on at {} ({}): its pages are damaged",
                                  (store / StorePages::kData).string(), at, *death));
  else if (result.samples < samples.size() && result.fault_count == 0)
    add_fault(result, fmt::format("{}: reading ended at {}", store.string(), at));
}

}  // namespace

VerifyResult verify_masks(const Screen& screen, const fs::path& path, const VerifyOptions& options,
                          Progress& progress) {
  VerifyResult result;
  const Directory store = open_mask_directory(path, screen, result.contents);
  result.is_manifest_checked = check_store_manifest(store);
  const DirectoryLock lock(path, DirectoryLock::Use::reading);
  const StorePages pages = StorePages::of(store);
  for (auto& fault : pages.faults()) add_fault(result, std::move(fault));
  result.pages = pages.size();
  check_values_in_child(result, screen, path, choose_samples(result.contents, options), progress);
  return result;
}

}  // namespace lacuna
