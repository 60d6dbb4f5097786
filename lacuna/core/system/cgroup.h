// The control groups that limit this process (cgroups of Linux, version 1 and 2).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lacuna {

// Where Linux lists them; tests make up their own.
struct CgroupPlaces {
  std::filesystem::path mount = "/sys/fs/cgroup";
  std::filesystem::path groups_of_process = "/proc/self/cgroup";
};

// A group's folder; its files are named differently in the two versions.
struct CgroupFolder {
  std::filesystem::path path;
  int version = 2;
};

// The process's groups for a controller ("memory", "cpu"), from its own up to the topmost: the
// limits of all of them apply. Folders need not exist: in a container the paths may be the host's,
// and then the mount's own files count.
std::vector<CgroupFolder> cgroup_folders(const std::string& controller, const CgroupPlaces& places);

}  // namespace lacuna
