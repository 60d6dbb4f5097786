#include "lacuna/plan/machine.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "lacuna/core/system/memory.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Machine, EveryFigureIsThereAndSaysWhereItCameFrom) {
  const TemporaryDirectory folder;
  const Machine machine = probe_machine(folder.path());
  for (const Figure& figure : {machine.memory, machine.disk_free, machine.disk_write,
                               machine.disk_read, machine.cores, machine.memory_copy}) {
    EXPECT_GT(figure.value, 0) << figure.from;
    EXPECT_NE(figure.from, "");
  }
  EXPECT_NE(machine.gpu_from, "");
  EXPECT_EQ(machine.cores.value, available_threads());
  EXPECT_GT(machine.seconds, 0);
  EXPECT_TRUE(fs::is_empty(folder.path())) << "the probe leaves nothing behind";
}

TEST(Machine, DiskIsThatOfTheFolder) {
  const TemporaryDirectory folder;
  const double before = double(free_disk_bytes(folder.path()));
  const Machine machine = probe_machine(folder.path());
  EXPECT_NEAR(machine.disk_free.value, before, 0.2 * before);
  EXPECT_THAT(machine.disk_free.from, HasSubstr(folder.path().string()));
  EXPECT_THAT(machine.disk_write.from, StartsWith("measured: "));
  EXPECT_ERROR(probe_machine(folder / "nowhere"), "nowhere: no such folder");
}

// /proc cannot be written, not even by root.
TEST(Machine, FolderThatCannotBeWrittenLeavesTheSpeedAssumed) {
  const Machine machine = probe_machine("/proc");
  EXPECT_THAT(machine.disk_write.from, StartsWith("assumed: /proc: cannot be written: "));
  EXPECT_GT(machine.disk_write.value, 0);
}

// What was measured before the disk was full counts.
TEST(Machine, AFullDiskEndsTheProbeEarly) {
  const TemporaryDirectory folder;
  const auto written = [&](uint64_t bytes) {
    const FileSizeLimit limit(bytes);
    return probe_machine(folder.path()).disk_write.from;
  };
  EXPECT_EQ(written(1'500'000), "measured: 1.05 MB written, with fsync");
  EXPECT_THAT(written(500'000), StartsWith("assumed: "));
  EXPECT_THAT(written(500'000), HasSubstr("cannot write: File too large"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Machine, NoGpuSaysWhereItWasLookedFor) {
  std::string from;
  EXPECT_FALSE(probe_gpu(from, "libno-such-driver.so.1"));
  EXPECT_EQ(from, "none: no libno-such-driver.so.1 on this machine");
  EXPECT_FALSE(probe_gpu(from, "libc.so.6"));  // a library, but not the driver's
  EXPECT_EQ(from, "none: libc.so.6 shows none");
}

TEST(Machine, HiddenGpuIsNone) {
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
  std::string from;
  EXPECT_FALSE(probe_gpu(from));
  EXPECT_THAT(from, HasSubstr("CUDA_VISIBLE_DEVICES"));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(BytesFromText, UnitsOfThousandAndOf1024) {
  EXPECT_EQ(bytes_from_text("64GB"), 64'000'000'000);
  EXPECT_EQ(bytes_from_text("1.5TB"), 1'500'000'000'000);
  EXPECT_EQ(bytes_from_text("500 mb"), 500'000'000);
  EXPECT_EQ(bytes_from_text("2KiB"), 2048);
  EXPECT_EQ(bytes_from_text("1GiB"), 1u << 30);
  EXPECT_EQ(bytes_from_text("123"), 123);
  EXPECT_EQ(bytes_from_text("0"), 0);
}

TEST(BytesFromText, AnythingElseIsRefusedByName) {
  for (const char* text : {"", "GB", "-1GB", "12 elephants", "nan", "inf", "1e30", "64GB!", "1 2"})
    EXPECT_ERROR(bytes_from_text(text), fmt::format("'{}' is no number of bytes", text)) << text;
}

}  // namespace
}  // namespace lacuna
