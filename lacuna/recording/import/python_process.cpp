#include "lacuna/recording/import/python_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {
namespace {

std::string python_to_start(const std::string& named) {
  if (!named.empty()) return named;
  const char* python = std::getenv("LACUNA_PYTHON");
  return python && *python ? python : "python3";
}

// A file without a name that takes what the script says on its standard error: however much that
// is, the script is never held up by it.
int nameless_file() {
  char name[] = "/tmp/lacuna-python-XXXXXX";
  const int fd = ::mkostemp(name, O_CLOEXEC);
  if (fd < 0) throw_errno(name, "cannot create");
  ::unlink(name);
  return fd;
}

}  // namespace

PythonProcess::PythonProcess(const std::string& python, const char* script,
                             const std::vector<std::string>& words, const std::string& purpose)
    : purpose_(purpose), python_(python_to_start(python)) {
  std::vector<std::string> command = {python_, "-c", script};
  command.insert(command.end(), words.begin(), words.end());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(python_, "cannot make a pipe");
  errors_ = nameless_file();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors_, STDERR_FILENO);
  std::vector<char*> pointers;
  for (std::string& word : command) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int error =
      ::posix_spawnp(&process_, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  output_ = ends[0];
  if (error == 0) return;
  ::close(output_);
  ::close(errors_);
  process_ = -1;
  throw Error("{} is read through Python, and '{}' cannot be started: {}; name one with --python",
              purpose_, python_, std::strerror(error));
}

PythonProcess::~PythonProcess() {
  if (process_ >= 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::close(output_);
  ::close(errors_);
}

size_t PythonProcess::read_some(std::span<std::byte> out) {
  constexpr int kCheckEvery = 200;  // milliseconds
  for (;;) {
    throw_if_stopped();
    pollfd ready = {.fd = output_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kCheckEvery) <= 0) continue;
    const ssize_t count = ::read(output_, out.data(), out.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(python_, "cannot read from");
    return size_t(count);
  }
}

void PythonProcess::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const size_t count = read_some(out);
    if (count == 0) fail();
    out = out.subspan(count);
  }
}

std::string PythonProcess::read_all() {
  std::string all;
  std::vector<std::byte> piece(1 << 16);
  while (const size_t count = read_some(piece))
    all.append(reinterpret_cast<const char*>(piece.data()), count);
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  if (status != 0) fail();
  return all;
}

void PythonProcess::fail() {
  std::string words;
  char piece[4096];
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(errors_, piece, sizeof piece, at);
    if (count <= 0) break;
    words.append(piece, size_t(count));
    at += count;
  }
  while (!words.empty() && words.back() == '\n') words.pop_back();
  const size_t line = words.rfind('\n');
  words = line == words.npos ? words : words.substr(line + 1);
  throw Error("{}: {}", purpose_, words.empty() ? "Python ended without a word" : words);
}

}  // namespace lacuna
