// A Python script of bench/, run beside the program and read line by line.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lacuna/core/system/file.h"

namespace lacuna::cli {

class PythonScript {
 public:
  // script: a file of bench/, found beside an installed program or where it was built from. python:
  // which to start; empty: LACUNA_PYTHON, else python3. Throws Error when either is not there.
  PythonScript(const std::string& script, const std::string& python,
               const std::vector<std::string>& words);
  ~PythonScript();  // one that still runs is ended
  PythonScript(const PythonScript&) = delete;
  PythonScript& operator=(const PythonScript&) = delete;

  const fs::path& path() const { return path_; }
  // Of its standard output; false at the end. Looks at the stop flag (core/stop.h) while it waits.
  bool read_line(std::string& line);
  // Waits for it: its exit status, or 128 and the signal that ended it, as a shell would say.
  int end();

 private:
  fs::path path_;
  pid_t process_ = -1;
  int status_ = 0;
  int output_ = -1;
  std::string buffer_;  // read, and not given out yet
};

}  // namespace lacuna::cli
