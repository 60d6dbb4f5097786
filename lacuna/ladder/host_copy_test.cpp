#include "lacuna/ladder/host_copy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "lacuna/core/random.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/testing.h"
#include "lacuna/ladder/testing.h"

namespace lacuna {
namespace {

using testing::Child;
using testing::Signal;

constexpr uint64_t kPiece = 1 << 20;

HostCopyPlan plan_of(uint64_t key, uint64_t pieces) {
  HostCopyPlan plan = {.key = key, .words = "test bytes"};
  for (uint64_t i = 1; i <= pieces; ++i) plan.cuts.push_back(i * kPiece - (i == pieces ? 77 : 0));
  return plan;
}

void fill_piece(uint64_t piece, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::byte(mix64(piece * kPiece + i));
}

bool is_right(std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != std::byte(mix64(i))) return false;
  return true;
}

TEST(HostCopy, TheSecondFindsWhatTheFirstLoaded) {
  const HostCopyPlan plan = plan_of(test_seed(), 3);
  EXPECT_FALSE(HostCopy::is_held(plan));
  const auto first = HostCopy::share(plan, fill_piece);
  EXPECT_TRUE(HostCopy::is_held(plan));
  EXPECT_EQ(first->pieces_loaded_here(), 3);
  const auto second = HostCopy::share(plan, [](uint64_t, std::span<std::byte>) { FAIL(); });
  EXPECT_TRUE(is_right(first->bytes()));
  EXPECT_TRUE(is_right(second->bytes()));
  EXPECT_EQ(second->bytes().size(), 3 * kPiece - 77);
  EXPECT_GE(second->resident_bytes(), 3 * kPiece - 77);
}

TEST(HostCopy, IsGoneWithItsLastHolder) {
  const HostCopyPlan plan = plan_of(test_seed(), 1);
  HostCopy::share(plan, fill_piece);
  EXPECT_FALSE(HostCopy::is_held(plan));
}

TEST(HostCopy, UnrelatedProcessesShareIt) {
  const HostCopyPlan plan = plan_of(test_seed(), 4);
  Signal ready, end;
  Child first([&] {
    const auto copy = HostCopy::share(plan, fill_piece);
    ready.give();
    end.wait();
    return 0;
  });
  ready.wait();
  {
    const auto copy = HostCopy::share(plan, fill_piece);
    EXPECT_EQ(copy->pieces_loaded_here(), 0);
    first.kill();  // kill -9: the memory stays ours, and we serve it
    EXPECT_TRUE(is_right(copy->bytes()));
    Child third([&] {
      const auto other = HostCopy::share(plan, fill_piece);
      return other->pieces_loaded_here() == 0 && is_right(other->bytes()) ? 0 : 1;
    });
    EXPECT_EQ(third.wait(), 0);
  }
  EXPECT_FALSE(HostCopy::is_held(plan));
}

TEST(HostCopy, AKillWhileLoadingIsTakenOver) {
  const HostCopyPlan plan = plan_of(test_seed(), 5);
  Signal reached, forever;
  Child first([&] {
    HostCopy::share(plan, [&](uint64_t piece, std::span<std::byte> out) {
      if (piece == 2) {
        std::memset(out.data(), 0xee, out.size() / 2);  // half done
        reached.give();
        forever.wait();
      }
      fill_piece(piece, out);
    });
    return 1;
  });
  reached.wait();
  std::shared_ptr<const HostCopy> copy;
  std::thread waits([&] { copy = HostCopy::share(plan, fill_piece); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  first.kill();
  waits.join();
  EXPECT_EQ(copy->pieces_loaded_here(), 3);
  EXPECT_TRUE(is_right(copy->bytes()));
}

TEST(HostCopy, WhatFillThrowsPassesAndTheNextTriesAgain) {
  const HostCopyPlan plan = plan_of(test_seed(), 3);
  const auto fails = [](uint64_t piece, std::span<std::byte> out) {
    if (piece == 1) throw Error("row {} differs", 17);
    fill_piece(piece, out);
  };
  EXPECT_ERROR(HostCopy::share(plan, fails), "row 17");
  EXPECT_TRUE(is_right(HostCopy::share(plan, fill_piece)->bytes()));
}

// One physical copy: what the machine has free falls once, whatever the number of processes.
TEST(HostCopy, FourProcessesTakeTheMemoryOnce) {
  const uint64_t pieces = 96;
  const HostCopyPlan plan = plan_of(test_seed(), pieces);
  Signal ready, end;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 4; ++i)
    children.push_back(std::make_unique<Child>([&] {
      const auto copy = HostCopy::share(plan, fill_piece);
      const bool right = is_right(copy->bytes());
      ready.give();
      end.wait();
      return right ? 0 : 1;
    }));
  for (int i = 0; i < 4; ++i) ready.wait();
  uint64_t proportional = 0;
  for (const auto& child : children) {
    std::ifstream maps("/proc/" + std::to_string(child->pid()) + "/smaps");
    bool is_copy = false;
    for (std::string line; std::getline(maps, line);) {
      if (line.find('-') < line.find(' ')) is_copy = line.find("memfd:lacuna-frames") != line.npos;
      if (is_copy && line.starts_with("Pss:")) proportional += std::stoull(line.substr(4)) * 1024;
    }
  }
  for (int i = 0; i < 4; ++i) end.give();
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_GE(double(proportional), 0.98 * double(plan.cuts.back()));
  EXPECT_LE(double(proportional), 1.05 * double(plan.cuts.back()));
}

}  // namespace
}  // namespace lacuna
