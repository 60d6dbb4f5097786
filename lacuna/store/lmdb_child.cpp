#include "lacuna/store/lmdb_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// The parent reports what the child died of: it prints nothing, leaves no core file, and does not
// outlive the parent.
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

}  // namespace

LmdbChild::LmdbChild(const std::function<void(int fd)>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("reading LMDB", "cannot make a pipe");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    errno = error;
    throw_errno("reading LMDB", "cannot start a process");
  }
  if (pid_ > 0) {
    ::close(ends[1]);
    output_ = ends[0];
    return;
  }
  ::close(ends[0]);
  prepare_to_die_quietly(parent);
  work(ends[1]);
  ::_exit(0);
}

LmdbChild::~LmdbChild() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    death();
  }
  ::close(output_);
}

size_t LmdbChild::read(std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t got = ::read(output_, bytes.data(), bytes.size());
    if (got >= 0) return size_t(got);
    if (errno != EINTR) throw_errno("reading LMDB", "cannot read from its process");
  }
}

std::optional<std::string> LmdbChild::death() {
  int status = 0;
  const pid_t pid = std::exchange(pid_, -1);
  LACUNA_ASSERT(pid > 0);
  while (::waitpid(pid, &status, 0) < 0) {
    // Where SIGCHLD is ignored, the exit status is lost; an incomplete answer is noticed anyway.
    if (errno == ECHILD) return std::nullopt;
    if (errno != EINTR) return "it was taken away";
  }
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGVTALRM ? "it goes in circles" : ::strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("exit code {}", WEXITSTATUS(status));
  return std::nullopt;
}

void send_to_parent(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) ::_exit(1);
    if (written > 0) bytes = bytes.subspan(size_t(written));
  }
}

void limit_lmdb_work(long seconds) {
  const itimerval limit = {{0, 0}, {seconds, 0}};
  ::setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

}  // namespace lacuna
