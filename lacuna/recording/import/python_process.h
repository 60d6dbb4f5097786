// A Python script of ours, run beside the program for what only a Python package reads. Its text is
// given to Python with -c, so that nothing has to be installed beside us.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/child_output.h"

namespace lacuna {

class PythonProcess {
 public:
  // python: which to start; empty: LACUNA_PYTHON, else python3. Throws Error when it cannot be
  // started, with `purpose` in its words: "a torch file".
  PythonProcess(const std::string& python, const char* script,
                const std::vector<std::string>& words, const std::string& purpose);
  ~PythonProcess();  // ends it
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // Fills `out` from its standard output. Where that ends before, or the script fails: Error with
  // the last line that it wrote to its standard error.
  void read(std::span<std::byte> out);
  std::string read_all();

 private:
  [[noreturn]] void fail();

  std::string purpose_;
  int errors_;  // what it writes to its standard error
  std::optional<ChildOutput> child_;
};

}  // namespace lacuna
