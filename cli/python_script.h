// A Python script of bench/, run beside the program and read line by line.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/file.h"

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
  bool read_line(std::string& line);  // of its standard output; false at the end
  // Waits for it: its exit status, or 128 and the signal that ended it, as a shell would say.
  int end();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  fs::path path_;
  pid_t process_ = -1;
  int status_ = 0;
  std::unique_ptr<std::FILE, Close> output_;
};

}  // namespace lacuna::cli
