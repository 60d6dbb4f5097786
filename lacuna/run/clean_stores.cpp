#include "lacuna/run/clean_stores.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/masks/mask_store.h"
#include "lacuna/run/config.h"

namespace lacuna {
namespace {

bool is_store_format(const std::string& format) {
  return format == MaskStoreContents::kFormat || format == FrameStore::kFormat;
}

// The format of a directory with a manifest, finished or not; nothing where it has none.
std::optional<std::string> format_at(const fs::path& path, bool& is_finished) {
  is_finished = fs::exists(path / kManifest);
  try {
    if (is_finished) return Directory::format_of(path);
    return DirectoryWriter::unfinished_format(path);
  } catch (const Error&) {
    return std::nullopt;  // damaged: not ours to judge
  }
}

uint64_t bytes_under(const fs::path& path) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file() && !entry.is_symlink()) bytes += entry.file_size();
  return bytes;
}

std::string rung_of(const fs::path& path, bool is_finished) {
  try {
    const std::optional<Json> json = is_finished ? std::optional<Json>(load_manifest(path).json)
                                                 : DirectoryWriter::unfinished_purpose(path);
    if (!json) return {};
    if (json->contains("rung")) return json->at("rung").get<std::string>();
    if (json->contains("form")) return "disk:" + json->at("form").get<std::string>();
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return {};
}

class StoreFinder {
 public:
  void search(const fs::path& folder) {
    throw_if_stopped();
    bool is_finished = true;
    if (const auto format = format_at(folder, is_finished)) {
      if (is_store_format(*format))
        stores_[fs::weakly_canonical(folder)] = {.path = folder,
                                                 .format = *format,
                                                 .rung = rung_of(folder, is_finished),
                                                 .is_finished = is_finished,
                                                 .bytes = bytes_under(folder),
                                                 .referred_by = {}};
      return;
    }
    std::error_code ignored;  // a folder that may not be read holds nothing of ours
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.is_symlink()) continue;
      if (entry.is_directory()) search(entry.path());
      if (entry.is_regular_file() && entry.path().extension() == ".yaml")
        configs_.push_back(entry.path());
    }
  }

  std::vector<FoundStore> finish() {
    for (const fs::path& config : configs_) look_into(config);
    std::vector<FoundStore> found;
    for (auto& [path, store] : stores_) found.push_back(std::move(store));
    return found;
  }

 private:
  void look_into(const fs::path& config) {
    std::map<std::string, std::string> settings;
    try {
      settings = settings_of(read_text(config), config.string());
    } catch (const Error&) {
      return;  // not YAML: not a config
    }
    for (const auto& [key, value] : settings) {
      if (value.empty() || (key != "store" && !key.ends_with(".store"))) continue;
      // Relative names are those of the folder a command was called in: the config's, or ours.
      for (const fs::path& from : {config.parent_path(), fs::current_path()}) {
        const auto store = stores_.find(fs::weakly_canonical(fs::absolute(from) / value));
        if (store == stores_.end()) continue;
        auto& by = store->second.referred_by;
        if (std::ranges::find(by, config) == by.end()) by.push_back(config);
      }
    }
  }

  std::map<fs::path, FoundStore> stores_;
  std::vector<fs::path> configs_;
};

}  // namespace

std::vector<FoundStore> find_stores(const std::vector<fs::path>& folders) {
  StoreFinder finder;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder)) throw Error("{}: there is no such folder", folder.string());
    finder.search(folder);
  }
  return finder.finish();
}

void remove_store(const fs::path& path, const std::vector<FoundStore>& found) {
  bool is_finished = true;
  const auto format =
      fs::is_directory(path) && !fs::is_symlink(path) ? format_at(path, is_finished) : std::nullopt;
  if (!format || !is_store_format(*format))
    throw Error("{}: not a store; only stores are removed", path.string());
  for (const FoundStore& store : found)
    if (fs::weakly_canonical(store.path) == fs::weakly_canonical(path) &&
        !store.referred_by.empty())
      throw Error("{}: {} refers to it; remove that first, or take the key out", path.string(),
                  store.referred_by[0].string());
  const DirectoryFormat writes =
      *format == FrameStore::kFormat ? FrameStore::format() : MaskStoreContents::format();
  check_holds_only(path, writes);
  const auto lock = DirectoryLock::attempt(path, DirectoryLock::Use::writing);
  if (!lock) throw Error("{}: a process is using it; let it end first", path.string());
  fs::remove(path / kManifest);  // first: from here on nobody takes it for a finished one
  fs::remove_all(path);
}

}  // namespace lacuna
