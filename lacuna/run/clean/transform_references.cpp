#include "lacuna/run/clean/transform_references.h"

#include "lacuna/core/error.h"
#include "lacuna/recording/transforms/statistic_memory.h"
#include "lacuna/run/prepared_recording.h"

namespace lacuna {
namespace {

void add_statistics(const Recording& recording, const Json& transforms, std::set<fs::path>& out) {
  out.merge(statistic_files(Transforms(recording, transforms), recording));
}

void add_all_in(const fs::path& folder, std::set<fs::path>& out) {
  std::error_code ignored;  // not there
  for (const auto& entry : fs::directory_iterator(folder, ignored)) out.insert(entry.path());
}

// Of fields that are made late from a derived recording, which may be out of date.
void add_late_statistics(const fs::path& derived, const Json& late, std::set<fs::path>& out) {
  try {
    add_statistics(Recording::open(derived), late, out);
  } catch (const Error&) {
    add_all_in(derived / "statistics", out);
  }
}

}  // namespace

std::set<fs::path> transform_references(const fs::path& config, const fs::path& recording) {
  std::set<fs::path> read;
  try {
    Config given = read_config(config, {});
    given.recording.path = recording;
    const Recording source = Recording::open(recording);
    const TransformStages stages = stages_of(source, given.recording).fields;
    if (stages.once.empty()) {
      add_statistics(source, stages.late, read);
      return read;
    }
    const fs::path derived = fs::absolute(derived_place(given.recording, stages.once));
    read.insert(derived);
    add_statistics(source, stages.once, read);
    if (fs::exists(derived / kManifest)) add_late_statistics(derived, stages.late, read);
  } catch (const Error&) {
    add_all_in(recording.string() + ".derived", read);
    add_all_in(recording / "statistics", read);
  }
  return read;
}

}  // namespace lacuna
