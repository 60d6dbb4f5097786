#include "lacuna/run/clean/clean_stores.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/masks/mask_store.h"
#include "lacuna/recording/transforms/derived_sources.h"
#include "lacuna/recording/transforms/statistic_memory.h"
#include "lacuna/run/clean/transform_references.h"
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

// Unfinished ones do not say what they were to be; their place does (prepared_recording.h).
bool is_unfinished_derived(const fs::path& path) {
  return fs::absolute(path).parent_path().extension() == ".derived";
}

bool is_inside(const fs::path& file, const fs::path& folder) {
  const fs::path relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

class StoreFinder {
 public:
  void search(const fs::path& folder) {
    throw_if_stopped();
    bool is_finished = true;
    if (const auto format = format_at(folder, is_finished)) {
      if (is_store_format(*format)) add(folder, *format, rung_of(folder, is_finished), is_finished);
      if (*format == Recording::kFormat) add_recording(folder, is_finished);
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
    for (const Recording& recording : recordings_) look_into(recording);
    std::vector<FoundStore> found;
    for (auto& [path, store] : stores_) {
      if (store.format == kStatisticFormat) count_statistics(path, store);
      const auto around = stores_.find(path.parent_path());  // goes as a whole, statistics and all
      if (around == stores_.end() || !around->second.referred_by.empty()) found.push_back(store);
    }
    return found;
  }

 private:
  FoundStore& add(const fs::path& path, const std::string& format, const std::string& what,
                  bool is_finished) {
    return stores_[fs::weakly_canonical(path)] = {.path = path,
                                                  .format = format,
                                                  .what = what,
                                                  .is_finished = is_finished,
                                                  .bytes = bytes_under(path),
                                                  .referred_by = {},
                                                  .files = {}};
  }

  void add_recording(const fs::path& path, bool is_finished) {
    bool is_made = !is_finished && is_unfinished_derived(path);
    if (is_finished) {
      try {
        const Recording recording = Recording::open(path);
        recordings_.push_back(recording);
        is_made = is_derived(recording);
      } catch (const Error&) {
        return;  // damaged: not ours to judge
      }
    }
    if (is_made) add(path, Recording::kFormat, "transforms", is_finished);
    if (const fs::path folder = path / "statistics"; fs::is_directory(folder))
      add(folder, kStatisticFormat, "statistics", true);
  }

  void refer(const fs::path& to, const fs::path& by) {
    const auto store = stores_.find(fs::weakly_canonical(to));
    if (store == stores_.end()) return;
    auto& known = store->second.referred_by;
    if (std::ranges::find(known, by) == known.end()) known.push_back(by);
  }

  void look_into(const fs::path& config) {
    std::map<std::string, std::string> settings;
    try {
      settings = settings_of(read_text(config), config.string());
    } catch (const Error&) {
      return;  // not YAML: not a config
    }
    // Relative names are those of the folder a command was called in: the config's, or ours.
    for (const fs::path& from : {fs::absolute(config).parent_path(), fs::current_path()})
      for (const auto& [key, value] : settings) {
        if (value.empty()) continue;
        if (key == "store" || key.ends_with(".store") || key == "recording" || key == "derived")
          refer(from / value, config);
        if (key != "recording") continue;
        for (const fs::path& read :
             transform_references(config, fs::weakly_canonical(from / value)))
          if (read.parent_path().filename() == "statistics")
            statistics_[fs::weakly_canonical(read)] = config;
          else
            refer(read, config);
      }
  }

  // Fields of it that lie in a recording that was derived.
  void look_into(const Recording& recording) {
    const fs::path own = fs::weakly_canonical(recording.path());
    for (const Session& session : recording.sessions())
      for (const Segment& segment : session.segments)
        for (const Field& field : segment.fields)
          if (field.place.in_place)
            for (auto& [path, store] : stores_)
              if (path != own && is_inside(fs::weakly_canonical(field.place.file), path))
                refer(path, recording.path());
  }

  // What is left of a folder of statistics when those that are needed are taken out.
  void count_statistics(const fs::path& folder, FoundStore& store) const {
    store.bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto needed = statistics_.find(entry.path());
      if (needed == statistics_.end()) {
        store.files.push_back(entry.path());
        store.bytes += entry.is_regular_file() ? entry.file_size() : 0;
      } else if (store.files.empty()) {
        store.referred_by = {needed->second};
      }
    }
    if (!store.files.empty()) store.referred_by.clear();
  }

  std::map<fs::path, FoundStore> stores_;    // by canonical path
  std::map<fs::path, fs::path> statistics_;  // a file of one, and a config that needs it
  std::vector<Recording> recordings_;
  std::vector<fs::path> configs_;
};

void remove_statistics(const fs::path& folder, const FoundStore& store) {
  for (const fs::path& file : store.files)
    if (file.extension() != ".json")
      throw Error("{}: not a statistic; move it away first", file.string());
  for (const fs::path& file : store.files) fs::remove(file);
  if (fs::is_empty(folder)) fs::remove(folder);
}

// All that a store of this format may hold.
DirectoryFormat format_named(const std::string& format) {
  if (format == FrameStore::kFormat) return FrameStore::format();
  if (format == MaskStoreContents::kFormat) return MaskStoreContents::format();
  DirectoryFormat recording = Recording::format();
  recording.files.push_back("statistics/*.json");
  return recording;
}

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
  const auto store = std::ranges::find_if(found, [&](const FoundStore& one) {
    return fs::weakly_canonical(one.path) == fs::weakly_canonical(path);
  });
  if (store == found.end() || fs::is_symlink(path))
    throw Error("{}: not a store under the folders given; only stores are removed", path.string());
  if (!store->referred_by.empty())
    throw Error("{}: {} refers to it; remove that first, or take the key out", path.string(),
                store->referred_by[0].string());
  if (store->format == kStatisticFormat) return remove_statistics(path, *store);
  check_holds_only(path, format_named(store->format));
  const auto lock = DirectoryLock::attempt(path, DirectoryLock::Use::writing);
  if (!lock) throw Error("{}: a process is using it; let it end first", path.string());
  fs::remove(path / kManifest);  // first: from here on nobody takes it for a finished one
  fs::remove_all(path);
}

}  // namespace lacuna
