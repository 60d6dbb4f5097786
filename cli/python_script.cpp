#include "cli/python_script.h"

#include <cstring>

#include "lacuna/core/error.h"

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

std::vector<std::string> command_of(const std::string& python, const fs::path& script,
                                    const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {python_to_start(python), script.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace

PythonScript::PythonScript(const std::string& script, const std::string& python,
                           const std::vector<std::string>& arguments)
    : path_(find_script(script)), child_(command_of(python, path_, arguments)) {
  if (child_.start_error() != 0)
    throw Error("Python is needed, and '{}' cannot be started: {}; name one with --python",
                python_to_start(python), std::strerror(child_.start_error()));
}

PythonScript::~PythonScript() {
  child_.ask_to_end();
  child_.end();
}

bool PythonScript::read_line(std::string& line) {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return true;
    }
    std::byte piece[4096];
    const size_t count = child_.read_some(piece);
    if (count == 0) return false;
    buffer_.append(reinterpret_cast<const char*>(piece), count);
  }
}

}  // namespace lacuna::cli
