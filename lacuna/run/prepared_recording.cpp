#include "lacuna/run/prepared_recording.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/recording/transforms/derived_sources.h"

namespace lacuna {
namespace {

std::vector<std::string> names_of(const Json& settings) {
  std::vector<std::string> names;
  for (const auto& [name, json] : settings.items()) names.push_back(name);
  return names;
}

}  // namespace

TransformStages stages_of(const Recording& source, const RecordingOptions& options) {
  const WindowSettings& windows = options.windows;
  std::set<std::string> stored = {windows.stimulus.field, windows.counts, windows.validity,
                                  options.weight_column};
  for (const Session& session : source.sessions())
    for (const Segment& segment : session.segments)
      for (const Field& field : segment.fields)
        if (field.role != FieldRole::behaviour && field.role != FieldRole::stimulus &&
            field.role != FieldRole::other)
          stored.insert(field.name);  // trials, times, flags: windows are cut by them
  return stage_transforms(source, windows.transforms, stored);
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

PreparedRecording open_prepared(const RecordingOptions& options) {
  const Recording source = Recording::open(options.path);
  if (options.windows.transforms.empty()) return {source, options.windows};
  const TransformStages stages = stages_of(source, options);
  if (stages.once.empty()) return {source, options.windows};
  const fs::path place = derived_place(options, stages.once);
  if (!fs::exists(place / "manifest.json"))
    throw Error(
        "the transforms of {} are written once, before a training, and {} is not there; `lacuna "
        "prepare CONFIG` with this config writes it",
        fmt::join(names_of(stages.once), ", "), place.string());
  const Recording derived = Recording::open(place);
  const std::string changed = changed_since(source, derived, derive_options(options, stages));
  if (!changed.empty())
    throw Error("{}: {}; `lacuna prepare CONFIG` with this config {}", place.string(), changed,
                "says what to do, or adds what is missing");
  PreparedRecording prepared = {derived, options.windows};
  prepared.windows.transforms = stages.late;
  return prepared;
}

}  // namespace lacuna
