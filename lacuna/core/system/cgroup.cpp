#include "lacuna/core/system/cgroup.h"

#include <fstream>
#include <sstream>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

bool has_controller(const std::string& list, const std::string& wanted) {
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');)
    if (name == wanted) return true;
  return false;
}

}  // namespace

// A line of /proc/self/cgroup is "number:controllers:/path"; version 2 is the one without
// controllers.
std::vector<CgroupFolder> cgroup_folders(const std::string& controller,
                                         const CgroupPlaces& places) {
  std::vector<CgroupFolder> folders;
  std::ifstream in(places.groups_of_process);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !has_controller(controllers, controller)) continue;
    const fs::path root = version == 2 ? places.mount : places.mount / controller;
    fs::path path = fs::path(line.substr(second + 1)).relative_path();
    for (; !path.empty(); path = path.parent_path()) folders.push_back({root / path, version});
    folders.push_back({root, version});
  }
  return folders;
}

}  // namespace lacuna
