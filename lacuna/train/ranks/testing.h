// For tests only: several ranks over sockets. A test program is rank 0, and starts itself again
// once for each of the others, with the test that does their work.
#pragma once

#include <ATen/ATen.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/train/group.h"

extern char** environ;

namespace lacuna {

// Rank 0 has a line to every other one and adds up in their order, so all get its bits.
class SocketGroup : public Group {
 public:
  // lines: of rank 0 to the ranks 1, 2, ..; of another one to rank 0.
  SocketGroup(uint32_t rank, uint32_t world, std::vector<int> lines)
      : rank_(rank), world_(world), lines_(std::move(lines)) {}
  ~SocketGroup() override {
    for (const int line : lines_) ::close(line);
  }
  uint32_t rank() const override { return rank_; }
  uint32_t world() const override { return world_; }
  void sum(at::TensorList tensors) override {
    const at::NoGradGuard guard;
    for (const at::Tensor& tensor : tensors) {
      if (is_first())
        for (const int line : lines_) tensor.add_(receive(line, tensor));
      else
        send(lines_[0], tensor);
    }
    broadcast(tensors);
  }
  void broadcast(at::TensorList tensors) override {
    const at::NoGradGuard guard;
    for (const at::Tensor& tensor : tensors) {
      if (is_first())
        for (const int line : lines_) send(line, tensor);
      else
        tensor.copy_(receive(lines_[0], tensor));
    }
  }
  void barrier() override { any(false); }

 private:
  static void send(int line, const at::Tensor& tensor) {
    const at::Tensor bytes = tensor.detach().contiguous();
    const char* at = static_cast<const char*>(bytes.const_data_ptr());
    for (size_t left = bytes.nbytes(); left > 0;) {
      const ssize_t sent = ::send(line, at, left, MSG_NOSIGNAL);
      if (sent <= 0) throw Error("another rank has gone");
      at += sent;
      left -= size_t(sent);
    }
  }
  static at::Tensor receive(int line, const at::Tensor& like) {
    const at::Tensor bytes = at::empty_like(like.detach(), at::MemoryFormat::Contiguous);
    char* at = static_cast<char*>(bytes.mutable_data_ptr());
    for (size_t left = bytes.nbytes(); left > 0;) {
      const ssize_t received = ::recv(line, at, left, 0);
      if (received <= 0) throw Error("another rank has gone");
      at += received;
      left -= size_t(received);
    }
    return bytes;
  }

  uint32_t rank_, world_;
  std::vector<int> lines_;
};

// ---- the other ranks
inline constexpr const char* kRankWork = "LACUNA_TEST_RANK";  // "RANK WORLD WORDS.."
inline constexpr int kRankLine = 9;                           // its end of the line to rank 0

// The ranks 1 to world - 1, each in a process of its own for as long as this lives. test: the
// disabled one that they run; words: what it finds in its RankWork.
class OtherRanks {
 public:
  OtherRanks(uint32_t world, const std::string& test, const std::string& words) {
    std::vector<int> lines;
    for (uint32_t rank = 1; rank < world; ++rank)
      lines.push_back(start(fmt::format("{} {} {}", rank, world, words), test));
    group = std::make_unique<SocketGroup>(0, world, lines);
  }
  ~OtherRanks() { end(); }
  // Whether all of them have ended well.
  bool end() {
    group.reset();  // so that they do not wait for us
    bool is_well = true;
    for (const pid_t process : std::exchange(processes_, {})) {
      int status = 0;
      ::waitpid(process, &status, 0);
      is_well = is_well && status == 0;
    }
    return is_well;
  }

  std::unique_ptr<Group> group;  // of rank 0

 private:
  // Gives our end of the line.
  int start(const std::string& work, const std::string& test) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw Error("no sockets");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], kRankLine);
    for (const int output : {1, 2})  // it may not write to files, and this may be one
      ::posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0);
    ::setenv(kRankWork, work.c_str(), 1);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=" + test,
                also = "--gtest_also_run_disabled_tests";
    char* words[] = {program.data(), filter.data(), also.data(), nullptr};
    pid_t process = 0;
    const int status = ::posix_spawn(&process, program.c_str(), &actions, nullptr, words, environ);
    ::unsetenv(kRankWork);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (status != 0) throw Error("a rank does not start");
    processes_.push_back(process);
    return ends[0];
  }

  std::vector<pid_t> processes_;
};

// What a process was started for by OtherRanks; no words: by nobody.
struct RankWork {
  uint32_t rank = 0, world = 1;
  std::vector<std::string> words;
};
inline RankWork rank_work() {
  const char* asked = std::getenv(kRankWork);
  RankWork work;
  if (!asked) return work;
  std::istringstream all(asked);
  all >> work.rank >> work.world;
  for (std::string word; all >> word;) work.words.push_back(word);
  return work;
}

}  // namespace lacuna
