// For tests only: the seed of a random test, a directory that is removed with the test, a limit on
// file sizes, and the message of an Error.
//
//   const uint64_t seed = test_seed();
//   SCOPED_TRACE(seed);   // a failure prints it; LACUNA_TEST_SEED=<seed> repeats the case
//
// A test draws the same seeds in every run, so that a change passes or fails twice alike;
// LACUNA_TEST_SEED=fresh draws new ones (`make test-all` does).
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include "lacuna/core/error.h"
#include "lacuna/core/system/cgroup.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

inline uint64_t test_seed() {
  const char* asked = std::getenv("LACUNA_TEST_SEED");
  if (asked && asked == std::string_view("fresh")) {
    std::random_device device;
    return uint64_t(device()) << 32 | device();
  }
  if (asked) return std::strtoull(asked, nullptr, 10);
  static const testing::TestInfo* last = nullptr;
  static uint64_t drawn = 0;  // a test that draws twice gets two seeds
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (test != last) drawn = 0;
  last = test;
  const std::string name = test ? std::string(test->test_suite_name()) + test->name() : "";
  return std::hash<std::string>()(name) + drawn++;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "lacuna-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw_errno(name, "cannot create");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

// Without a flush to the disk: tests write thousands of files.
inline void write_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  ASSERT_TRUE(file.flush()) << path;
}

// While it lives, no file of this process may grow beyond `bytes`.
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

// A made-up /sys/fs/cgroup and /proc/self/cgroup.
struct MadeUpGroups {
  TemporaryDirectory root;
  CgroupPlaces places = {root / "cgroup", root / "self"};

  MadeUpGroups() { fs::create_directories(places.mount); }
  void belong(const std::string& lines) { write_file(places.groups_of_process, lines); }
  void put(const fs::path& group, const std::string& file, const std::string& text) {
    fs::create_directories(places.mount / group);
    write_file(places.mount / group / file, text);
  }
};

// The message of the Error that f() throws; the test fails when it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string words = error.what();
    EXPECT_EQ(words.find('\n'), words.npos) << "a message is one line: " << words;
    return words;
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

// EXPECT_ERROR(expression, "words"): it throws an Error whose message contains these words.
#define EXPECT_ERROR(expression, words)                                                     \
  EXPECT_NE(::lacuna::error_of([&] { (void)(expression); }).find(words), std::string::npos) \
      << "said: " << ::lacuna::error_of([&] { (void)(expression); })

}  // namespace lacuna
