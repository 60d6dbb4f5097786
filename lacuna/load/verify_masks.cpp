#include "lacuna/load/verify_masks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/threads.h"
#include "lacuna/load/prepare_masks.h"
#include "lacuna/load/store_pages.h"
#include "lacuna/store/directory_lock.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

constexpr uint64_t kChunk = 64;  // samples that are compared side by side

// The manifest holds a checksum of all its members but those that Directory writes and checks.
void check_manifest(const Directory& store) {
  Json manifest = store.manifest();
  std::string stated;
  read_manifest(store.path(), [&] { stated = manifest.at("xxh3").get<std::string>(); });
  for (const char* const key : {"format", "version", "files", "xxh3"}) manifest.erase(key);
  if (hex(hash64(manifest.dump())) != stated)
    throw Error("{}: manifest.json has changed; restore it or make the store again",
                store.path().string());
}

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

// What LMDB writes before a value in pages of its own.
struct PageHeader {
  uint64_t page;
  uint16_t pad, flags;
  uint32_t pages;
};
static_assert(sizeof(PageHeader) == 16);

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
    return reinterpret_cast<uintptr_t>(value.data()) % page_bytes == sizeof(PageHeader);
  }

  bool has_right_page(std::span<const std::byte> value) const {
    if (!has_own_pages(value, page_bytes_)) return true;  // in a page of the tree
    const PageHeader header = page_of(value);
    constexpr uint16_t kOverflow = 4;
    const uint64_t bytes = sizeof(PageHeader) + value.size();
    return header.pad == 0 && header.flags == kOverflow &&
           header.pages == (bytes + page_bytes_ - 1) / page_bytes_ && lies_in(header.page, value);
  }

  // What follows a value in its last page. LMDB clears the last of several pages before it writes
  // to it; a page that holds a value alone may come from an earlier one, and shows what that was.
  bool ends_in_zeros(std::span<const std::byte> value) const {
    const uint64_t used = (sizeof(PageHeader) + value.size()) % page_bytes_;
    if (!has_own_pages(value, page_bytes_) || page_of(value).pages < 2 || used == 0) return true;
    const std::byte* const end = value.data() + value.size();
    return std::all_of(end, end + (page_bytes_ - used),
                       [](std::byte byte) { return byte == std::byte(0); });
  }

  static PageHeader page_of(std::span<const std::byte> value) {
    PageHeader header;
    std::memcpy(&header, value.data() - sizeof header, sizeof header);
    return header;
  }

  // Whether the value lies in this page of the file; values differ by the sample in their header.
  bool lies_in(uint64_t page, std::span<const std::byte> value) const {
    const auto file = file_.bytes();
    if (page >= file.size() / page_bytes_) return false;
    const uint64_t offset = page * page_bytes_ + sizeof(PageHeader);
    return value.size() <= file.size() - offset &&
           std::memcmp(file.data() + offset, value.data(), sizeof(MaskHeader)) == 0;
  }

  std::string changed(uint64_t sample, std::span<const std::byte> value, uint64_t at) const {
    std::string where;
    if (has_own_pages(value, page_bytes_) && lies_in(page_of(value).page, value))
      where = fmt::format(", byte {} of {}",
                          page_of(value).page * page_bytes_ + sizeof(PageHeader) + at,
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
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t written = ::write(fd, line.data() + sent, line.size() - sent);
    if (written < 0 && errno != EINTR) ::_exit(1);
    if (written > 0) sent += size_t(written);
  }
}

// Ends the process when it works longer than this: in a damaged tree LMDB can go in circles. Time
// spent waiting for the disk does not count. 0: no limit.
void limit_work(long seconds) {
  const itimerval limit = {{0, 0}, {seconds, 0}};
  ::setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}
constexpr long kLongSearch = 1;  // seconds for a chunk of samples, which takes microseconds

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
    limit_work(kLongSearch);
    for (uint64_t i = 0; i < count; ++i) {
      try {
        values[i] = view.get(mask_key(samples[first + i])).value_or(values[i]);
      } catch (const Error& error) {
        faults[i] = fmt::format("sample {}: {}", samples[first + i], error.what());
      }
    }
    limit_work(0);
    parallel_for(count, 0, [&](uint64_t i) {
      if (faults[i].empty()) faults[i] = checker.fault(samples[first + i], values[i]);
    });
    for (const auto& fault : faults)
      if (!fault.empty()) send(fd, 'F', fault);
    send(fd, 'P', std::to_string(first + count));
  }
}

// What it dies of is the parent's to tell: no words, no core file. It does not outlive the parent.
void prepare_to_die_quietly(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGVTALRM})
    ::signal(number, SIG_DFL);
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  const int null = ::open("/dev/null", O_WRONLY);
  if (null >= 0) ::dup2(null, STDERR_FILENO);
}

struct Child {
  pid_t pid;
  int output;  // what it sends
};

Child start_child(const std::function<void(int fd)>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("verify", "cannot make a pipe");
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) throw_errno("verify", "cannot start a process");
  if (pid > 0) {
    ::close(ends[1]);
    return {pid, ends[0]};
  }
  ::close(ends[0]);
  prepare_to_die_quietly(parent);
  try {
    work(ends[1]);
  } catch (const std::exception& error) {
    send(ends[1], 'F', error.what());
  }
  ::_exit(0);
}

class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  ~LineReader() { ::close(fd_); }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  std::optional<std::string> next() {
    for (size_t end; (end = buffer_.find('\n')) == buffer_.npos;) {
      char piece[4096];
      const ssize_t got = ::read(fd_, piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      buffer_.append(piece, size_t(got));
    }
    const size_t end = buffer_.find('\n');
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

 private:
  int fd_;
  std::string buffer_;
};

void add_fault(VerifyResult& result, std::string fault) {
  ++result.fault_count;
  if (result.faults.size() < VerifyResult::kMostFaults) result.faults.push_back(std::move(fault));
}

std::string words_for(int signal) {
  return signal == SIGVTALRM ? "it goes in circles" : ::strsignal(signal);
}

void check_values_in_child(VerifyResult& result, const Screen& screen, const fs::path& store,
                           const std::vector<uint64_t>& samples, Progress& progress) {
  progress.begin("verifying", samples.size(), "samples");
  const Child child =
      start_child([&](int fd) { check_values(fd, screen, store, result.contents, samples); });
  std::string at = "the first page";
  {
    LineReader lines(child.output);
    while (const auto line = lines.next()) {
      const std::string text = line->substr(1);
      if ((*line)[0] == 'F') add_fault(result, text);
      if ((*line)[0] == 'S') at = text;
      if ((*line)[0] == 'P') progress.advance(result.samples = std::stoull(text));
    }
  }
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  progress.end();
  if (WIFSIGNALED(status))
    add_fault(result,
              fmt::format("{}: LMDB could not be read on at {} ({}): its pages are damaged",
                          (store / StorePages::kData).string(), at, words_for(WTERMSIG(status))));
  else if (result.samples < samples.size() && result.fault_count == 0)
    add_fault(result, fmt::format("{}: reading ended at {} (exit code {})", store.string(), at,
                                  WEXITSTATUS(status)));
}

}  // namespace

VerifyResult verify_masks(const Screen& screen, const fs::path& path, const VerifyOptions& options,
                          Progress& progress) {
  VerifyResult result;
  const Directory store = open_mask_directory(path, screen, result.contents);
  const DirectoryLock lock(path, DirectoryLock::Use::reading);
  check_manifest(store);
  store.check(Progress::none());  // pages.npy
  const StorePages pages = StorePages::of(store);
  for (auto& fault : pages.faults()) add_fault(result, std::move(fault));
  result.pages = pages.size();
  check_values_in_child(result, screen, path, choose_samples(result.contents, options), progress);
  return result;
}

}  // namespace lacuna
