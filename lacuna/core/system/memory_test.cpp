#include "lacuna/core/system/memory.h"

#include <gmock/gmock.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

struct Groups : MadeUpGroups {
  std::optional<CgroupMemory> read() const { return cgroup_memory(places); }
};

TEST(CgroupMemory, NoLimitIsNothing) {
  Groups groups;
  EXPECT_FALSE(groups.read());  // no cgroups at all
  groups.belong("0::/\n");
  groups.put("", "memory.max", "max\n");
  EXPECT_FALSE(groups.read());
}

TEST(CgroupMemory, ContainerSeesItsOwnLimit) {
  Groups groups;
  groups.belong("0::/\n");
  groups.put("", "memory.max", "8000000000\n");
  groups.put("", "memory.current", "3000000000\n");
  groups.put("", "memory.stat",
             "anon 500\nfile 2500000000\ninactive_file 700000000\nactive_file 300000000\n");
  const auto group = groups.read();
  ASSERT_TRUE(group);
  EXPECT_EQ(group->limit, 8'000'000'000);
  EXPECT_EQ(group->used, 2'000'000'000);  // a third of it is cache to be taken back
  EXPECT_EQ(group->left(), 6'000'000'000);
  EXPECT_EQ(group->file, (groups.places.mount / "memory.max").string());
}

// A job's step has no limit of its own; the job above it has, and the node's slice a wider one.
TEST(CgroupMemory, TheTightestOfAllAbove) {
  Groups groups;
  groups.belong("0::/slice/job_7/step_0\n");
  groups.put("slice/job_7/step_0", "memory.max", "max\n");
  groups.put("slice/job_7", "memory.max", "4000\n");
  groups.put("slice/job_7", "memory.current", "1500\n");
  groups.put("slice", "memory.max", "9000\n");
  EXPECT_EQ(groups.read().value().left(), 2500);
  groups.put("slice", "memory.current", "8900\n");  // others use the slice: now it is tighter
  EXPECT_EQ(groups.read().value().left(), 100);
  groups.put("slice", "memory.current", "9100\n");
  EXPECT_EQ(groups.read().value().left(), 0);
}

TEST(CgroupMemory, VersionOne) {
  Groups groups;
  groups.belong("5:cpuset:/job\n4:hugetlb,memory:/job\n1:name=systemd:/job\n");
  groups.put("memory", "memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_FALSE(groups.read());
  groups.put("memory/job", "memory.limit_in_bytes", "5000\n");
  groups.put("memory/job", "memory.usage_in_bytes", "2000\n");
  groups.put("memory/job", "memory.stat",
             "inactive_file 1\ntotal_inactive_file 500\ntotal_active_file 20\n");
  EXPECT_EQ(groups.read().value().left(), 3520);
}

// The path is the host's, the mount the container's.
TEST(CgroupMemory, PathThatIsNotThere) {
  Groups groups;
  groups.belong("0::/docker/0123abcd\n");
  groups.put("", "memory.max", "7000\n");
  EXPECT_EQ(groups.read().value().limit, 7000);
}

TEST(Memory, AvailableIsWithinTheLimit) {
  EXPECT_GT(available_memory(), 0);
  const auto group = cgroup_memory();
  EXPECT_TRUE(!group || available_memory() <= group->limit);
}

}  // namespace
}  // namespace lacuna
