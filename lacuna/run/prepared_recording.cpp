#include "lacuna/run/prepared_recording.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/recording/transforms/derived_sources.h"

namespace lacuna {
namespace {

std::vector<std::string> names_of(const Json& settings) {
  std::vector<std::string> names;
  for (const auto& [name, json] : settings.items()) names.push_back(name);
  return names;
}

}  // namespace

ConfigStages stages_of(const Recording& source, const RecordingOptions& options) {
  const WindowSettings& windows = options.windows;
  std::set<std::string> stored = {windows.stimulus.field, windows.counts, windows.validity,
                                  options.weight_column};
  for (const Session& session : source.sessions())
    for (const Segment& segment : session.segments)
      for (const Field& field : segment.fields)
        if (field.role != FieldRole::behaviour && field.role != FieldRole::stimulus &&
            field.role != FieldRole::other)
          stored.insert(field.name);  // trials, times, flags: windows are cut by them
  ConfigStages stages;
  Json settings = windows.transforms;
  const bool is_input = std::ranges::find(windows.inputs, windows.stimulus.field,
                                          &LaggedField::field) != windows.inputs.end();
  const bool holds_floats = !is_bytes(options.rung) && !is_resident(options.rung);
  if (!is_input)
    if (auto ops = late_frame_ops(source, settings, windows.stimulus.field, holds_floats)) {
      stages.frame_ops = std::move(*ops);
      settings.erase(windows.stimulus.field);
    }
  stages.fields = stage_transforms(source, settings, stored);
  return stages;
}

fs::path derived_place(const RecordingOptions& options, const Json& once) {
  if (!options.derived.empty()) return options.derived;
  const fs::path path = options.path.has_filename() ? options.path : options.path.parent_path();
  const std::string text = fmt::format("{} {}", once.dump(), kTransformsVersion);
  return path.string() + ".derived/" + hex(hash64(std::as_bytes(std::span(text))));
}

DeriveOptions derive_options(const RecordingOptions& options, const TransformStages& stages) {
  return {.transforms = stages.once, .sessions = options.windows.sessions};
}

PreparedRecording open_prepared(const Config& config) {
  const RecordingOptions& options = config.recording;
  const Recording source = Recording::open(options.path);
  PreparedRecording prepared = {source, options.windows};
  if (options.windows.transforms.empty()) return prepared;
  const ConfigStages stages = stages_of(source, options);
  prepared.windows.transforms = stages.fields.late;
  prepared.frame_ops = stages.frame_ops;
  const Json& once = stages.fields.once;
  if (once.empty()) return prepared;
  const fs::path place = derived_place(options, once);
  if (!fs::exists(place / "manifest.json"))
    throw Error(
        "the transforms of {} are written once, before a training, and {} is not there; `lacuna "
        "prepare {}` writes it",
        fmt::join(names_of(once), ", "), place.string(), config.words);
  prepared.lock = std::make_shared<const DirectoryLock>(place, DirectoryLock::Use::reading);
  prepared.recording = Recording::open(place);
  const std::string changed =
      changed_since(source, prepared.recording, derive_options(options, stages.fields));
  if (!changed.empty())
    throw Error("{}: {}; `lacuna prepare {}` says what to do, or adds what is missing",
                place.string(), changed, config.words);
  return prepared;
}

}  // namespace lacuna
