#include "cli/python_script.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna::cli {
namespace {

// Beside an installed program, else in the checkout that the program was built from.
fs::path find_script(const std::string& name) {
  const fs::path prefix = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  const fs::path installed = prefix / LACUNA_SHARE / "bench" / name;
  const fs::path source = fs::path(LACUNA_SOURCE) / "bench" / name;
  for (const fs::path& path : {installed, source})
    if (fs::exists(path)) return path;
  throw Error("{} is not there; install lacuna again", installed.string());
}

std::string find_python(const std::string& named) {
  if (!named.empty()) return named;
  const char* python = std::getenv("LACUNA_PYTHON");
  return python && *python ? python : "python3";
}

}  // namespace

PythonScript::PythonScript(const std::string& script, const std::string& python,
                           const std::vector<std::string>& arguments)
    : path_(find_script(script)) {
  std::vector<std::string> words = {find_python(python), path_.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  int ends[2];
  if (::pipe(ends) != 0) throw_errno(words[0], "cannot make a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addclose(&actions, ends[0]);
  ::posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int error =
      ::posix_spawnp(&process_, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  output_ = ends[0];
  if (error == 0) return;
  ::close(output_);
  process_ = -1;
  throw Error("Python is needed, and '{}' cannot be started: {}; name one with --python", words[0],
              std::strerror(error));
}

PythonScript::~PythonScript() {
  if (process_ >= 0) ::kill(process_, SIGTERM);
  end();
  ::close(output_);
}

bool PythonScript::read_line(std::string& line) {
  constexpr int kCheckEvery = 200;  // milliseconds
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return true;
    }
    throw_if_stopped();
    pollfd ready = {.fd = output_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kCheckEvery) <= 0) continue;
    char piece[4096];
    const ssize_t count = ::read(output_, piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    buffer_.append(piece, size_t(count));
  }
}

int PythonScript::end() {
  if (process_ < 0) return status_;
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

}  // namespace lacuna::cli
