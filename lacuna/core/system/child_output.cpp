#include "lacuna/core/system/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {

ChildOutput::ChildOutput(std::vector<std::string> words, int errors) : program_(words.at(0)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(program_, "cannot make a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (errors >= 0) ::posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  start_error_ =
      ::posix_spawnp(&process_, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  output_ = ends[0];
  if (start_error_ != 0) process_ = -1;
}

ChildOutput::~ChildOutput() {
  if (process_ >= 0) ::kill(process_, SIGKILL);
  end();
  ::close(output_);
}

size_t ChildOutput::read_some(std::span<std::byte> out) {
  constexpr int kCheckEvery = 200;  // milliseconds
  for (;;) {
    throw_if_stopped();
    pollfd ready = {.fd = output_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kCheckEvery) <= 0) continue;
    const ssize_t count = ::read(output_, out.data(), out.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(program_, "cannot read from");
    return size_t(count);
  }
}

void ChildOutput::ask_to_end() {
  if (process_ >= 0) ::kill(process_, SIGTERM);
}

int ChildOutput::end() {
  if (process_ < 0) return status_;
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string python_to_start(const std::string& named) {
  if (!named.empty()) return named;
  const char* python = std::getenv("LACUNA_PYTHON");
  return python && *python ? python : "python3";
}

}  // namespace lacuna
