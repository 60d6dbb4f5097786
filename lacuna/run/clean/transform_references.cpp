#include "lacuna/run/clean/transform_references.h"

#include "lacuna/core/error.h"
#include "lacuna/recording/transforms/statistic_memory.h"
#include "lacuna/run/prepared_recording.h"
#include "lacuna/run/recording/session_start.h"

namespace lacuna {
namespace {

void add_statistics(const Recording& recording, const Json& transforms, std::set<fs::path>& out) {
  out.merge(statistic_files(Transforms(recording, transforms), recording));
}

void add_all_in(const fs::path& folder, std::set<fs::path>& out) {
  std::error_code ignored;  // not there
  for (const auto& entry : fs::directory_iterator(folder, ignored)) out.insert(entry.path());
}

// What trainings of this config remember of the sessions that they start from.
void add_session_starts(const Config& config, std::set<fs::path>& out) {
  const PreparedRecording prepared = open_prepared(config);
  const Recording& recording = prepared.recording;
  for (const Session& session : recording.sessions())
    out.insert(statistic_file(recording.path(), session_start_key(prepared, config, session)));
}

// Of a derived recording, which may be out of date.
void add_derived_statistics(const Config& config, const fs::path& derived, const Json& late,
                            std::set<fs::path>& out) {
  try {
    add_statistics(Recording::open(derived), late, out);
    add_session_starts(config, out);
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
      add_session_starts(given, read);
      return read;
    }
    const fs::path derived = fs::absolute(derived_place(given.recording, stages.once));
    read.insert(derived);
    add_statistics(source, stages.once, read);
    if (fs::exists(derived / kManifest)) add_derived_statistics(given, derived, stages.late, read);
  } catch (const Error&) {
    add_all_in(recording.string() + ".derived", read);
    add_all_in(recording / "statistics", read);
  }
  return read;
}

}  // namespace lacuna
