#include "lacuna/store/lmdb_child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <vector>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

std::string all_that_is_sent(LmdbChild& child) {
  std::string text;
  std::array<std::byte, 100> piece;
  while (const size_t got = child.read(piece))
    text.append(reinterpret_cast<const char*>(piece.data()), got);
  return text;
}

void send(int fd, std::string_view text) { send_to_parent(fd, std::as_bytes(std::span(text))); }

TEST(LmdbChild, SendsAndEnds) {
  const std::string text(1'000'000, 'x');  // far more than a pipe holds
  LmdbChild child([&](int fd) { send(fd, text); });
  EXPECT_TRUE(all_that_is_sent(child) == text);
  EXPECT_EQ(child.death(), std::nullopt);
}

TEST(LmdbChild, WhatItDiesOfIsSaid) {
  const auto death_of = [](const std::function<void(int)>& work) {
    LmdbChild child(work);
    EXPECT_EQ(all_that_is_sent(child), "before");
    return child.death().value_or("nothing");
  };
  EXPECT_EQ(death_of([](int fd) {
              send(fd, "before");
              ::raise(SIGBUS);
            }),
            "Bus error");
  EXPECT_EQ(death_of([](int fd) {
              send(fd, "before");
              ::abort();
            }),
            "Aborted");
  EXPECT_EQ(death_of([](int fd) {
              send(fd, "before");
              ::_exit(3);
            }),
            "exit code 3");
  EXPECT_EQ(death_of([](int fd) {
              send(fd, "before");
              limit_lmdb_work(1);
              for (std::atomic<int> i = 0;; ++i) {
              }
            }),
            "it goes in circles");
}

TEST(LmdbChild, WaitingIsNoWork) {
  LmdbChild child([](int fd) {
    limit_lmdb_work(1);
    ::usleep(1'200'000);
    send(fd, "there");
  });
  EXPECT_EQ(all_that_is_sent(child), "there");
  EXPECT_EQ(child.death(), std::nullopt);
}

TEST(LmdbChild, ItEndsWithItsOwner) {
  pid_t pid = 0;
  {
    LmdbChild child([](int fd) {
      send(fd, std::to_string(::getpid()) + "\n");
      for (;;) ::pause();
    });
    std::array<std::byte, 100> piece;
    const size_t got = child.read(piece);
    pid = std::stoi(std::string(reinterpret_cast<const char*>(piece.data()), got));
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_TRUE(::kill(pid, 0) != 0 && errno == ESRCH);
}

}  // namespace
}  // namespace lacuna
