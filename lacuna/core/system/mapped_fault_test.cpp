#include "lacuna/core/system/mapped_fault.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

struct Ended {
  int status;
  std::string said;
};

// Runs `work` in a process of its own.
Ended run(const std::function<void()>& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit no_core_file = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core_file);
    ::dup2(ends[1], STDERR_FILENO);
    ::signal(SIGBUS, SIG_DFL);  // not the sanitizer's
    work();
    ::_exit(0);
  }
  ::close(ends[1]);
  Ended ended = {0, ""};
  char piece[1000];
  for (ssize_t got; (got = ::read(ends[0], piece, sizeof piece)) > 0;)
    ended.said.append(piece, size_t(got));
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(pid, &ended.status, 0), pid);
  return ended;
}

char last_byte(const MappedFile& file) {
  return *static_cast<const volatile char*>(static_cast<const void*>(&file.bytes().back()));
}

TEST(MappedFault, AFileCutShortIsNamed) {
  const TemporaryDirectory directory;
  const fs::path path = directory / "a\nfile";
  const Ended ended = run([&] {
    report_mapped_faults();
    report_mapped_faults();  // does not chain to itself
    write_file(path, std::string(100'000, 'x'));
    write_file(directory / "other", std::string(100'000, 'x'));
    const MappedFile other(directory / "other"), file(path), another(directory / "other");
    fs::resize_file(path, 10);
    last_byte(other);
    last_byte(file);
  });
  ASSERT_TRUE(WIFEXITED(ended.status)) << "signal " << WTERMSIG(ended.status);
  EXPECT_EQ(WEXITSTATUS(ended.status), 1);
  EXPECT_EQ(ended.said, "error: " + (directory / "a file").string() +
                            ": became shorter while it was read (or its disk fails); restore the "
                            "file and run the command again\n");
}

TEST(MappedFault, InAThreadToo) {
  const TemporaryDirectory directory;
  const Ended ended = run([&] {
    report_mapped_faults();
    write_file(directory / "f", std::string(100'000, 'x'));
    const MappedFile file(directory / "f");
    fs::resize_file(directory / "f", 0);
    std::thread([&] { last_byte(file); }).join();
  });
  ASSERT_TRUE(WIFEXITED(ended.status));
  EXPECT_EQ(ended.said.find("error: " + (directory / "f").string() + ": became shorter"), 0u);
}

// A mapping that is not ours, whose file was emptied.
void touch_foreign(const fs::path& path) {
  write_file(path, std::string(100'000, 'x'));
  FILE* const file = std::fopen(path.c_str(), "r");
  void* const mapped = ::mmap(nullptr, 100'000, PROT_READ, MAP_SHARED, ::fileno(file), 0);
  fs::resize_file(path, 0);
  (void)*static_cast<volatile char*>(mapped);
}

TEST(MappedFault, ForeignFaultsGoToWhoHadThemBefore) {
  const TemporaryDirectory directory;
  const Ended died = run([&] {
    report_mapped_faults();
    touch_foreign(directory / "f");
  });
  ASSERT_TRUE(WIFSIGNALED(died.status));
  EXPECT_EQ(WTERMSIG(died.status), SIGBUS);
  EXPECT_EQ(died.said, "");

  const Ended handled = run([&] {
    struct sigaction before = {};
    before.sa_flags = SA_SIGINFO;
    before.sa_sigaction = [](int, siginfo_t*, void*) { ::_exit(17); };
    ::sigaction(SIGBUS, &before, nullptr);
    report_mapped_faults();
    touch_foreign(directory / "f");
  });
  ASSERT_TRUE(WIFEXITED(handled.status));
  EXPECT_EQ(WEXITSTATUS(handled.status), 17);

  const Ended plainly = run([&] {
    ::signal(SIGBUS, [](int) { ::_exit(18); });
    report_mapped_faults();
    ::raise(SIGBUS);
  });
  ASSERT_TRUE(WIFEXITED(plainly.status));
  EXPECT_EQ(WEXITSTATUS(plainly.status), 18);

  const Ended sent = run([&] {
    report_mapped_faults();
    ::raise(SIGBUS);
  });
  ASSERT_TRUE(WIFSIGNALED(sent.status));
  EXPECT_EQ(WTERMSIG(sent.status), SIGBUS);
}

TEST(MappedFault, TheTableHasThoseThatLive) {
  const TemporaryDirectory directory;
  write_file(directory / "f", "ten bytes.");
  const char elsewhere = 'x';
  const void* gone = nullptr;
  {
    const MappedFile file(directory / "f");
    gone = file.bytes().data();
    EXPECT_TRUE(is_mapped_range(gone));
    EXPECT_TRUE(is_mapped_range(file.bytes().data() + 9));
    EXPECT_FALSE(is_mapped_range(file.bytes().data() + 10));
    EXPECT_FALSE(is_mapped_range(&elsewhere));
  }
  EXPECT_FALSE(is_mapped_range(gone));
  std::vector<MappedFile> many;  // more than there is room for: no harm
  for (size_t i = 0; i < MappedRange::kMost + 10; ++i) many.emplace_back(directory / "f");
  EXPECT_TRUE(is_mapped_range(many.front().bytes().data()));
  EXPECT_FALSE(is_mapped_range(many.back().bytes().data()));
  many.erase(many.begin());
  EXPECT_TRUE(is_mapped_range(MappedFile(directory / "f").bytes().data()));
}

TEST(MappedFault, ManyThreadsAtOnce) {
  const TemporaryDirectory directory;
  write_file(directory / "f", "ten bytes.");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const MappedFile file(directory / "f");
        ASSERT_TRUE(is_mapped_range(file.bytes().data()));
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(NoFile, APipeInPlaceOfAFileIsRefusedAtOnce) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile(directory / "pipe"), "/pipe: not a regular file");
  EXPECT_ERROR(read_text(directory / "pipe"), "/pipe: not a regular file");
  EXPECT_ERROR(hash_file(directory / "pipe"), "/pipe: not a regular file");
  EXPECT_ERROR(hash_file("/dev/zero"), "/dev/zero: not a regular file");
}

}  // namespace
}  // namespace lacuna
