// Child processes and what passes between them, for the tests of what a host shares; not a part of
// the library.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <utility>

namespace lacuna::testing {

// Does this and exits with its result, 99 where it throws; killed with the test.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    int result = 99;
    try {
      result = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(result);
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// A byte through a pipe.
struct Signal {
  int ends[2];
  Signal() { EXPECT_EQ(::pipe(ends), 0); }
  ~Signal() {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  void give() { (void)!::write(ends[1], "x", 1); }
  // Of who gives no more: a child that ends without giving is then seen.
  void close_giving() { ::close(std::exchange(ends[1], -1)); }
  // Whether something was given; false where nobody is left who could.
  bool wait() {
    char byte;
    return ::read(ends[0], &byte, 1) == 1;
  }
};

}  // namespace lacuna::testing
