#include "lacuna/recording/import/python_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

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
    : purpose_(purpose), errors_(nameless_file()) {
  std::vector<std::string> command = {python_to_start(python), "-c", script};
  command.insert(command.end(), words.begin(), words.end());
  child_.emplace(command, errors_);
  if (child_->start_error() == 0) return;
  ::close(errors_);
  throw Error("{} is read through Python, and '{}' cannot be started: {}; name one with --python",
              purpose_, command[0], std::strerror(child_->start_error()));
}

PythonProcess::~PythonProcess() {
  child_.reset();
  ::close(errors_);
}

void PythonProcess::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const size_t count = child_->read_some(out);
    if (count == 0) fail();
    out = out.subspan(count);
  }
}

std::string PythonProcess::read_all() {
  std::string all;
  std::vector<std::byte> piece(1 << 16);
  while (const size_t count = child_->read_some(piece))
    all.append(reinterpret_cast<const char*>(piece.data()), count);
  if (child_->end() != 0) fail();
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
