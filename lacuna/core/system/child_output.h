// A program run beside this one, whose standard output is read as it comes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lacuna {

class ChildOutput {
 public:
  // words: the program, looked for on PATH, and its arguments. errors: a descriptor that takes its
  // standard error; -1: ours. Where it cannot be started, start_error() says why, as an errno; the
  // caller knows what the program was for.
  explicit ChildOutput(std::vector<std::string> words, int errors = -1);
  ~ChildOutput();  // kills a program that still runs, and waits for it
  ChildOutput(const ChildOutput&) = delete;
  ChildOutput& operator=(const ChildOutput&) = delete;

  int start_error() const { return start_error_; }  // 0: it was started
  // As many bytes as there are, at least one; 0 at the end. Throws Stopped when asked to stop while
  // it waits.
  size_t read_some(std::span<std::byte> out);
  void ask_to_end();  // SIGTERM
  // Waits for it; returns its exit status, or 128 plus the signal that ended it, as a shell does.
  int end();

 private:
  std::string program_;
  int start_error_ = 0, status_ = 0;
  pid_t process_ = -1;
  int output_ = -1;
};

// Which Python to start: the one that is named, else LACUNA_PYTHON, else python3.
std::string python_to_start(const std::string& named);

}  // namespace lacuna
