#include "lacuna/ladder/host_copy.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

constexpr uint64_t kCopyMagic = 0x31636e75636c6163;   // a version is another number
constexpr uint64_t kDataOffset = uint64_t(2) << 20;   // a huge page; what is not written takes none
constexpr auto kPatience = std::chrono::seconds(20);  // for an answer, under any load

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The first page of the memory.
struct CopyHeader {
  uint64_t magic = 0, key = 0, bytes = 0, pieces = 0;
  pthread_mutex_t loading;  // robust, between processes
  std::atomic<uint64_t> done = 0;
};
static_assert(sizeof(CopyHeader) <= 4096);

// What a process is handed.
struct CopyHandles {
  Descriptor memory, listener;
};

struct CopyAddress {
  sockaddr_un name = {};
  socklen_t length = 0;

  explicit CopyAddress(uint64_t key) {
    const std::string text = fmt::format("lacuna-{}-{}", ::geteuid(), hex(key));
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());  // [0] is 0: no file
    length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

[[noreturn]] void throw_copy_errno(const std::string& words, const char* what) {
  throw_errno("memory for " + words, what);
}

bool is_ours(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

union TwoDescriptors {
  cmsghdr header;
  char room[CMSG_SPACE(2 * sizeof(int))];
};

void hand_out(int socket, int memory, int listener) {
  char byte = 1;
  iovec data = {&byte, 1};
  TwoDescriptors control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control.room;
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int both[2] = {memory, listener};
  std::memcpy(CMSG_DATA(part), both, sizeof both);
  (void)::sendmsg(socket, &message, MSG_NOSIGNAL);  // who has gone needs no answer
}

// Nothing where the other side ended before it answered.
std::optional<CopyHandles> receive(int socket) {
  char byte = 0;
  iovec data = {&byte, 1};
  TwoDescriptors control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control.room;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) return std::nullopt;
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  if (!part || part->cmsg_type != SCM_RIGHTS || part->cmsg_len != CMSG_LEN(2 * sizeof(int)))
    return std::nullopt;
  int both[2];
  std::memcpy(both, CMSG_DATA(part), sizeof both);
  return CopyHandles{Descriptor(both[0]), Descriptor(both[1])};
}

// One thread of the process that answers for all the memory it holds.
class CopyServer {
 public:
  static CopyServer& get() {
    static auto* const server = new CopyServer;  // lives as long as the process
    return *server;
  }

  void add(int listener, int memory) {
    const std::lock_guard lock(mutex_);
    if (owner_ != ::getpid()) {  // a fork has no threads of its parent
      owner_ = ::getpid();
      wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      std::thread([this] { serve(); }).detach();
    }
    held_[listener] = memory;
    wake();
  }
  // Returns when the thread uses them no more.
  void remove(int listener) {
    const std::lock_guard lock(mutex_);
    held_.erase(listener);
    wake();
  }

 private:
  void wake() const {
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  void serve() {
    std::vector<pollfd> waiting;
    while (true) {
      waiting.clear();
      {
        const std::lock_guard lock(mutex_);
        waiting.push_back({wake_.get(), POLLIN, 0});
        for (const auto& [listener, memory] : held_) waiting.push_back({listener, POLLIN, 0});
      }
      (void)::poll(waiting.data(), waiting.size(), -1);
      const std::lock_guard lock(mutex_);
      uint64_t ignored = 0;
      if (waiting[0].revents) (void)!::read(wake_.get(), &ignored, sizeof ignored);
      for (size_t i = 1; i < waiting.size(); ++i) {
        const auto found = held_.find(waiting[i].fd);
        if (!waiting[i].revents || found == held_.end()) continue;
        const Descriptor client(::accept4(found->first, nullptr, nullptr, SOCK_CLOEXEC));
        if (client && is_ours(client.get())) hand_out(client.get(), found->second, found->first);
      }
    }
  }

  std::mutex mutex_;
  std::map<int, int> held_;  // listener -> memory
  Descriptor wake_;
  pid_t owner_ = 0;
};

Descriptor open_socket(const std::string& words, int flags = 0) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!socket) throw_copy_errno(words, "cannot open a socket");
  return socket;
}

// From a process that holds it; nothing where none does.
std::optional<CopyHandles> ask_holder(const HostCopyPlan& plan) {
  const CopyAddress address(plan.key);
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    throw_if_stopped();
    const Descriptor socket = open_socket(plan.words);
    const timeval patience = {.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket.get(), address.get(), address.length) != 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return std::nullopt;
    }
    if (!is_ours(socket.get()))
      throw Error("the memory for {} is offered by another user's process; end it", plan.words);
    if (auto handles = receive(socket.get())) return handles;
    if (std::chrono::steady_clock::now() - begin > kPatience)
      throw Error(
          "a process holds the {} in memory but does not answer; is it stopped? Let it go on, or "
          "end it",
          plan.words);
  }
}

void* map_copy(int memory, uint64_t offset, uint64_t bytes, int protection,
               const std::string& words) {
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, memory, off_t(offset));
  if (data == MAP_FAILED) throw_copy_errno(words, "cannot map");
  return data;
}

CopyHeader* map_header(int memory, const std::string& words) {
  return static_cast<CopyHeader*>(
      map_copy(memory, 0, sizeof(CopyHeader), PROT_READ | PROT_WRITE, words));
}

Descriptor make_memory(const HostCopyPlan& plan) {
  Descriptor memory(::memfd_create("lacuna-frames", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) throw_copy_errno(plan.words, "cannot create");
  const uint64_t bytes = kDataOffset + std::max<uint64_t>(plan.cuts.back(), 1);
  if (::ftruncate(memory.get(), off_t(bytes)) != 0)
    throw_copy_errno(plan.words, "cannot set the size");
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  CopyHeader* header = map_header(memory.get(), plan.words);
  new (header) CopyHeader;
  pthread_mutexattr_t kind;
  ::pthread_mutexattr_init(&kind);
  ::pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&header->loading, &kind);
  ::pthread_mutexattr_destroy(&kind);
  header->key = plan.key;
  header->bytes = plan.cuts.back();
  header->pieces = plan.cuts.size() - 1;
  header->magic = kCopyMagic;
  ::munmap(header, sizeof(CopyHeader));
  return memory;
}

// Takes the name; nothing where another process was faster.
std::optional<CopyHandles> offer(const HostCopyPlan& plan) {
  Descriptor listener = open_socket(plan.words, SOCK_NONBLOCK);
  const CopyAddress address(plan.key);
  if (::bind(listener.get(), address.get(), address.length) != 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    throw_copy_errno(plan.words, "cannot name a socket");
  }
  Descriptor memory = make_memory(plan);
  if (::listen(listener.get(), 256) != 0) throw_copy_errno(plan.words, "cannot listen");
  return CopyHandles{std::move(memory), std::move(listener)};
}

}  // namespace

struct HostCopy::State {
  HostCopyPlan plan;
  CopyHandles handles;
  CopyHeader* header = nullptr;
  const std::byte* data = nullptr;
  uint64_t loaded_here = 0;

  State(const HostCopyPlan& wanted, CopyHandles given) : plan(wanted), handles(std::move(given)) {
    struct stat status = {};
    const uint64_t expected = kDataOffset + std::max<uint64_t>(plan.cuts.back(), 1);
    if (::fstat(handles.memory.get(), &status) != 0 || uint64_t(status.st_size) != expected)
      throw Error("the memory that another process holds for {} has {} bytes, not {}", plan.words,
                  uint64_t(status.st_size), expected);
    header = map_header(handles.memory.get(), plan.words);
    data = static_cast<const std::byte*>(
        map_copy(handles.memory.get(), kDataOffset, expected - kDataOffset, PROT_READ, plan.words));
    ::madvise(const_cast<std::byte*>(data), expected - kDataOffset, MADV_HUGEPAGE);
    if (header->magic != kCopyMagic || header->key != plan.key ||
        header->pieces != plan.cuts.size() - 1)
      throw Error("the memory that another process holds for {} is of another version; end it",
                  plan.words);
    CopyServer::get().add(handles.listener.get(), handles.memory.get());
  }
  ~State() {
    if (data) {
      CopyServer::get().remove(handles.listener.get());
      ::munmap(const_cast<std::byte*>(data), std::max<uint64_t>(plan.cuts.back(), 1));
    }
    if (header) ::munmap(header, sizeof(CopyHeader));
  }

  // Waits for its turn; looks at the stop flag meanwhile.
  void lock() const {
    while (true) {
      timespec until = {};
      ::clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += 200'000'000;
      until.tv_sec += until.tv_nsec / 1'000'000'000;
      until.tv_nsec %= 1'000'000'000;
      const int result = ::pthread_mutex_timedlock(&header->loading, &until);
      if (result == EOWNERDEAD) ::pthread_mutex_consistent(&header->loading);  // it was killed
      if (result == 0 || result == EOWNERDEAD) return;
      if (result != ETIMEDOUT) {
        errno = result;
        throw_copy_errno(plan.words, "cannot lock");
      }
      throw_if_stopped();
    }
  }

  // The next piece that is not done, or false: all are.
  bool load_next(const Fill& fill) {
    if (header->done >= header->pieces) return false;
    lock();
    struct Unlock {
      pthread_mutex_t* mutex;
      ~Unlock() { ::pthread_mutex_unlock(mutex); }
    } const unlock{&header->loading};
    const uint64_t piece = header->done;
    if (piece >= header->pieces) return false;
    const uint64_t begin = plan.cuts[piece], bytes = plan.cuts[piece + 1] - begin;
    const uint64_t page = begin & ~uint64_t(4095);
    struct Mapped {
      void* data;
      uint64_t bytes;
      ~Mapped() { ::munmap(data, bytes); }
    } const mapped{
        map_copy(handles.memory.get(), kDataOffset + page,
                 std::max<uint64_t>(begin - page + bytes, 1), PROT_READ | PROT_WRITE, plan.words),
        std::max<uint64_t>(begin - page + bytes, 1)};
    ::madvise(mapped.data, mapped.bytes, MADV_HUGEPAGE);
    fill(piece, {static_cast<std::byte*>(mapped.data) + (begin - page), bytes});
    ++loaded_here;
    header->done = piece + 1;
    return true;
  }
};

bool HostCopy::is_held(const HostCopyPlan& plan) { return ask_holder(plan).has_value(); }

std::shared_ptr<const HostCopy> HostCopy::share(const HostCopyPlan& plan, const Fill& fill,
                                                Progress& progress, uint64_t done) {
  LACUNA_ASSERT(!plan.cuts.empty() && plan.cuts[0] == 0);
  std::optional<CopyHandles> handles;
  while (!handles) {
    handles = ask_holder(plan);
    if (!handles) handles = offer(plan);
    if (!handles) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::shared_ptr<HostCopy> copy(new HostCopy(std::make_unique<State>(plan, std::move(*handles))));
  while (copy->state_->load_next(fill))
    progress.advance(done + plan.cuts[copy->state_->header->done]);
  return copy;
}

HostCopy::HostCopy(std::unique_ptr<State> state) : state_(std::move(state)) {}
HostCopy::~HostCopy() = default;

std::span<const std::byte> HostCopy::bytes() const {
  return {state_->data, state_->plan.cuts.back()};
}

uint64_t HostCopy::resident_bytes() const {
  struct stat status = {};
  if (::fstat(state_->handles.memory.get(), &status) != 0)
    throw_copy_errno(state_->plan.words, "cannot look at");
  return uint64_t(status.st_blocks) * 512;
}

uint64_t HostCopy::pieces_loaded_here() const { return state_->loaded_here; }

}  // namespace lacuna
