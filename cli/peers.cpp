#include "cli/peers.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "lacuna/core/error.h"

namespace lacuna::cli {
namespace {

// Beside an installed program, else where the program was built from.
fs::path find_script() {
  const fs::path prefix = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  const fs::path installed = prefix / LACUNA_SHARE / "bench/ladder_peers.py";
  const fs::path source = fs::path(LACUNA_SOURCE) / "bench/ladder_peers.py";
  for (const fs::path& path : {installed, source})
    if (fs::exists(path)) return path;
  throw Error("the peers need {}, which is not there; install lacuna again, or leave out --peers",
              installed.string());
}

std::string find_python(const std::string& named) {
  if (!named.empty()) return named;
  const char* python = std::getenv("LACUNA_PYTHON");
  return python && *python ? python : "python3";
}

// A program whose standard output is read line by line.
class Child {
 public:
  explicit Child(std::vector<std::string> words) : name_(words[0]) {
    int ends[2];
    if (::pipe(ends) != 0) throw_errno(name_, "cannot make a pipe");
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
    output_.reset(::fdopen(ends[0], "r"));
    if (error == 0) return;
    process_ = -1;
    throw Error("the peers need Python, and '{}' cannot be started: {}; name one with --python",
                name_, std::strerror(error));
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool read_line(std::string& line) {
    line.clear();
    for (int c = std::fgetc(output_.get()); c != EOF; c = std::fgetc(output_.get())) {
      if (c == '\n') return true;
      line += char(c);
    }
    return false;
  }
  // Its exit status, or 128 and the signal that ended it, as a shell would say.
  int end() {
    if (process_ < 0) return status_;
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string name_;
  pid_t process_ = -1;
  int status_ = 0;
  std::unique_ptr<std::FILE, Close> output_;
};

}  // namespace

std::vector<Json> run_peers(const PeersSettings& settings,
                            const std::function<void(const Json& peer)>& heard) {
  const std::string python = find_python(settings.python);
  const fs::path script = find_script();
  Child child({python, script.string(), settings.screen.string(), "--batch",
               std::to_string(settings.batch), "--seconds", fmt::format("{}", settings.seconds),
               "--folder", settings.folder.string()});
  std::vector<Json> peers;
  for (std::string line; child.read_line(line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) throw Error("{} printed what is no JSON: {}", script.string(), line);
    if (json.contains("error")) throw Error(json.at("error").get<std::string>());
    peers.push_back(json);
    heard(json);
  }
  if (const int status = child.end(); status != 0)
    throw Error("{} failed with status {}; what Python said stands above", script.string(), status);
  return peers;
}

}  // namespace lacuna::cli
