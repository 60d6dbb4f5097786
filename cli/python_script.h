// A Python script of bench/, run beside the program and read line by line.
#pragma once

#include <string>
#include <vector>

#include "lacuna/core/system/child_output.h"
#include "lacuna/core/system/file.h"

namespace lacuna::cli {

class PythonScript {
 public:
  // script: a file of bench/, found beside an installed program or in the checkout it was built
  // from. python: which to start; empty: LACUNA_PYTHON, else python3. Throws Error when either does
  // not exist.
  PythonScript(const std::string& script, const std::string& python,
               const std::vector<std::string>& words);
  ~PythonScript();  // ends a script that still runs
  PythonScript(const PythonScript&) = delete;
  PythonScript& operator=(const PythonScript&) = delete;

  const fs::path& path() const { return path_; }
  // Of its standard output; false at the end. Throws Stopped when asked to stop while it waits.
  bool read_line(std::string& line);
  // Waits for it; returns its exit status, or 128 plus the signal that ended it, as a shell does.
  int end() { return child_.end(); }

 private:
  fs::path path_;
  ChildOutput child_;
  std::string buffer_;  // read from it, but not returned yet
};

}  // namespace lacuna::cli
