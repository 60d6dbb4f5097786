#include <fmt/format.h>

#include "cli/info.h"
#include "cli/terminal.h"
#include "lacuna/ladder/frame_store.h"

namespace lacuna::cli {

void print_frame_store_info(const fs::path& path, bool json, bool check) {
  const DirectoryLock lock(path, DirectoryLock::Use::reading);
  const Directory store = Directory::open(path, FrameStore::kFormat, FrameStore::kVersion);
  TerminalProgress progress;
  if (check) store.check(progress);
  std::vector<std::vector<std::string>> rows = {{"session", "frames", "bytes", "made from"}};
  Json sessions = Json::array();
  uint64_t bytes = 0;
  read_manifest(path, [&] {
    for (const auto& [name, made_from] : store.manifest().at("sessions").items()) {
      const Directory session =
          Directory::open(path / name, FrameStore::kSessionFormat, FrameStore::kVersion);
      if (check) session.check(progress);
      uint64_t frames = 0;
      for (const Json& segment : session.manifest().at("session").at("segments"))
        frames += segment.at("frames").get<uint64_t>();
      bytes += session.bytes();
      rows.push_back(
          {name, with_commas(frames), format_bytes(session.bytes()), made_from.get<std::string>()});
      sessions.push_back({{"name", name}, {"frames", frames}, {"bytes", session.bytes()}});
    }
  });
  const Json& manifest = store.manifest();
  if (json) {
    fmt::print("{}\n", Json({{"format", FrameStore::kFormat},
                             {"rung", manifest.value("rung", "")},
                             {"field", manifest.value("field", "")},
                             {"transforms", manifest.value("transforms", Json::array())},
                             {"bytes", bytes},
                             {"sessions", sessions},
                             {"checked", check}})
                           .dump(2));
    return;
  }
  fmt::print("{}: frames of field '{}' for rung {}, {} sessions, {}\n", path.string(),
             manifest.value("field", ""), manifest.value("rung", ""), rows.size() - 1,
             format_bytes(bytes));
  fmt::print("{}", format_table(rows, {1, 2}));
  if (check) fmt::print("\nchecked: every byte is as the manifests say\n");
}

}  // namespace lacuna::cli
