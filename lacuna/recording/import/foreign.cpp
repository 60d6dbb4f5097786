#include "lacuna/recording/import/foreign.h"

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/recording/import/sources.h"
#include "lacuna/store/zarr/zarr_metadata.h"

namespace lacuna {
namespace {

constexpr int kMostFolders = 3;  // inside each other: sessions, segments, and files in parts

bool has_extension(const fs::path& path, std::initializer_list<std::string_view> known) {
  return std::ranges::find(known, path.extension().string()) != known.end();
}
bool is_torch_file(const fs::path& path) { return has_extension(path, {".dset", ".pt", ".pth"}); }
bool is_hdf5_file(const fs::path& path) {
  return has_extension(path, {".h5", ".hdf5", ".hdf", ".nwb"});
}
bool is_zarr(const fs::path& path) {
  return fs::is_directory(path) && (is_zarr_array(path) || is_zarr_group(path));
}

// What is there already stays.
void add_metadata(const Json& from, Json& to) {
  for (const auto& [key, value] : from.items())
    if (!to.contains(key)) to[key] = value;
}

void add_under(const std::string& prefix, ForeignSource& part, ForeignSource& all) {
  for (auto& array : part.arrays) {
    if (!prefix.empty()) array->name = prefix + "/" + array->name;
    all.arrays.push_back(std::move(array));
  }
  const std::string before = prefix.empty() ? "" : prefix + "/";
  for (const std::string& words : part.skipped) all.skipped.push_back(before + words);
  for (auto& array : part.unreadable) all.unreadable.push_back({before + array.name, array.why});
  add_metadata(part.metadata, prefix.empty() ? all.metadata : all.groups[prefix]);
  for (const auto& [name, values] : part.groups) add_metadata(values, all.groups[before + name]);
}

ForeignSource open_folder(const fs::path& folder, const ForeignOptions& options, int depth) {
  ForeignSource all;
  std::vector<fs::path> members;
  for (const auto& entry : fs::directory_iterator(folder)) members.push_back(entry.path());
  std::ranges::sort(members);
  for (const fs::path& path : members) {
    ForeignSource part;
    const std::string stem = path.stem().string();
    try {
      if (has_extension(path, {".npy", ".dat"}) || (is_zarr(path) && is_zarr_array(path))) {
        part = open_foreign(path, options);
        add_under("", part, all);
      } else if (is_torch_file(path) || is_hdf5_file(path) || is_zarr(path)) {
        part = open_foreign(path, options);
        add_under(stem, part, all);
      } else if (fs::is_directory(path) && depth < kMostFolders) {
        part = open_folder(path, options, depth + 1);
        add_under(path.filename().string(), part, all);
      }
    } catch (const Error& error) {
      all.unreadable.push_back({stem, error.what()});
    }
  }
  return all;
}

}  // namespace

Json ForeignSource::metadata_of(const std::string& array) const {
  Json all = metadata;
  for (size_t end = array.find('/'); end != array.npos; end = array.find('/', end + 1))
    if (const auto found = groups.find(array.substr(0, end)); found != groups.end())
      for (const auto& [key, value] : found->second.items()) all[key] = value;
  return all;
}

ForeignSource open_foreign(const fs::path& path, const ForeignOptions& options) {
  if (!fs::exists(path)) throw Error("{}: no such file or folder", path.string());
  if (is_zarr(path)) return open_zarr(path, options);
  if (fs::is_directory(path)) {
    ForeignSource source = open_folder(path, options, 0);
    if (source.arrays.empty() && source.unreadable.empty())
      throw Error("{}: no .npy, .dat, .dset, .pt, .h5 or Zarr array in it", path.string());
    return source;
  }
  if (has_extension(path, {".npy"})) return open_npy(path);
  if (has_extension(path, {".dat"})) return open_raw_map(path);
  if (is_torch_file(path)) return open_torch(path, options);
  if (is_hdf5_file(path)) return open_hdf5(path, options);
  throw Error(
      "{}: what kind of file '{}' is, is not known; .npy, .dat, .dset, .pt, .h5 and Zarr "
      "folders are read",
      path.string(), path.extension().string());
}

}  // namespace lacuna
