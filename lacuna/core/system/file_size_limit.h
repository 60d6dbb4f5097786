// For tests only.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <cstdint>

namespace lacuna {

// No file of this process may grow beyond `bytes`, for the length of a test.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_ = {};
  void (*old_handler_)(int);
};

}  // namespace lacuna
