#include "lacuna/store/directory_format.h"

#include <fnmatch.h>

#include <algorithm>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

bool matches(const std::string& pattern, const std::string& file) {
  return ::fnmatch(pattern.c_str(), file.c_str(), FNM_PATHNAME) == 0;
}

bool is_manifest(const std::string& file) { return matches("manifest*.json", file); }

bool is_folder_of(const DirectoryFormat& format, const std::string& folder) {
  return std::ranges::any_of(format.files, [&](const std::string& pattern) {
    for (size_t at = pattern.find('/'); at != pattern.npos; at = pattern.find('/', at + 1))
      if (matches(pattern.substr(0, at), folder)) return true;
    return false;
  });
}

// Everything in a directory and its folders; a folder comes before its contents.
std::vector<fs::directory_entry> all_in(const fs::path& directory) {
  std::vector<fs::directory_entry> found;
  std::error_code error;
  fs::recursive_directory_iterator at(directory, error), end;
  for (; !error && at != end; at.increment(error)) found.push_back(*at);
  if (error) throw Error("{}: cannot list the directory: {}", directory.string(), error.message());
  return found;
}

bool is_folder(const fs::directory_entry& entry) {
  return entry.symlink_status().type() == fs::file_type::directory;
}

std::string name_in(const fs::path& directory, const fs::directory_entry& entry) {
  return entry.path().lexically_relative(directory).generic_string();
}

}  // namespace

bool DirectoryFormat::writes(const std::string& file) const {
  return matches("manifest*.tmp", file) ||
         std::ranges::any_of(files, [&](const auto& pattern) { return matches(pattern, file); });
}

void check_holds_only(const fs::path& directory, const DirectoryFormat& format) {
  for (const auto& entry : all_in(directory)) {
    const std::string file = name_in(directory, entry);
    if (is_folder(entry) ? is_folder_of(format, file) : format.writes(file) || is_manifest(file))
      continue;
    throw Error(
        "{}: holds {}, which is not part of a {}, and is not started afresh over it; move it away, "
        "or choose another name",
        directory.string(), file, format.name);
  }
}

void remove_files(const fs::path& directory, const DirectoryFormat& format) {
  auto entries = all_in(directory);
  std::ranges::reverse(entries);  // a folder's contents before the folder
  for (const auto& entry : entries) {
    const std::string file = name_in(directory, entry);
    const bool goes = is_folder(entry) ? is_folder_of(format, file) && fs::is_empty(entry.path())
                                       : format.writes(file);
    if (!goes) continue;
    std::error_code error;
    fs::remove(entry.path(), error);
    if (error) throw Error("{}: cannot remove: {}", entry.path().string(), error.message());
  }
}

}  // namespace lacuna
