#include "lacuna/recording/transforms/derived_sources.h"

#include <algorithm>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"

namespace lacuna {
namespace {

constexpr uint64_t kRowsAtOnce = 256;

// made_by of the recording and of each time that sessions were added.
std::vector<Json> makers_of(const Recording& derived) {
  const Json& manifest = derived.directory().manifest();
  std::vector<Json> makers;
  read_manifest(derived.path(), [&] {
    makers.push_back(manifest.at("made_by"));
    if (manifest.contains("added_by"))
      for (const Json& added : manifest.at("added_by")) makers.push_back(added);
  });
  return makers;
}

Json settings_in(const Json& made_by) {
  return made_by.value("settings", Json::object()).value("derived", Json());
}

// Rows of a made field, made again. Bits are compared: NaN is NaN.
uint64_t compare_rows(const Transforms& transforms, const Session& session, const Segment& segment,
                      const Field& stored, bool all) {
  const Array rows = read_checked(stored);
  std::vector<float> row(stored.columns());
  uint64_t compared = 0;
  for (uint64_t first = 0; first < stored.rows();
       first += all ? kRowsAtOnce : std::max(kRowsAtOnce, stored.rows() / 3)) {
    const uint64_t count = std::min(kRowsAtOnce, stored.rows() - first);
    const RowBlock made = transforms.rows(session, segment, stored.name, first, count);
    for (uint64_t t = first; t < first + count; ++t, ++compared) {
      read_row(stored, rows.bytes().data() + t * stored.row_bytes(), row.data());
      for (uint64_t c = 0; c < row.size(); ++c) {
        const float wanted =
            stored.dtype == DType::bf16 ? float(BFloat16(made.at(t)[c])) : made.at(t)[c];
        if (std::memcmp(&wanted, &row[c], sizeof wanted) != 0 &&
            !(wanted != wanted && row[c] != row[c]))
          throw Error(
              "{}: row {} of field '{}' of {}/{} is not what its source gives now; delete the "
              "recording and make it again",
              stored.place.file.string(), t, stored.name, session.name, segment.name);
      }
    }
  }
  return compared;
}

}  // namespace

Json derived_settings(const DeriveOptions& options) {
  return {{"transforms", options.transforms},
          {"step", options.step},
          {"without", options.without},
          {"version", kTransformsVersion}};
}

bool is_derived(const Recording& recording) {
  const Json& manifest = recording.directory().manifest();
  return manifest.contains("made_by") && settings_in(manifest.at("made_by")).is_object();
}

std::map<std::string, std::string> derived_keys(const Recording& derived, const Json& settings) {
  std::map<std::string, std::string> keys;
  for (const Json& made_by : makers_of(derived)) {
    if (settings_in(made_by) != settings)
      throw Error(
          "{}: a recording is there that was not made by these transforms; choose another name, or "
          "delete it",
          derived.path().string());
    read_manifest(derived.path(), [&] {
      for (const auto& [session, key] : made_by.at("settings").at("keys").items())
        keys[session] = key.get<std::string>();
    });
  }
  return keys;
}

std::string changed_since(const Recording& source, const Recording& derived,
                          const DeriveOptions& options) {
  const Json settings = derived_settings(options);
  const auto keys = derived_keys(derived, settings);
  const Transforms transforms(source, options.transforms);
  for (const Session& session : source.sessions()) {
    if (!options.takes(session.name)) continue;
    const auto found = keys.find(session.name);
    if (found == keys.end())
      return fmt::format("session '{}' of {} is not in it", session.name, source.path().string());
    if (found->second != hex(transform_key(source, session.name, settings, transforms.fields())))
      return fmt::format("session '{}' of {}, its split or a Python function has changed since",
                         session.name, source.path().string());
  }
  for (const RecordingSplit& split : source.splits())
    if (std::ranges::find(derived.splits(), split.name, &RecordingSplit::name) ==
        derived.splits().end())
      return fmt::format("split '{}' of {} is not in it", split.name, source.path().string());
  return "";
}

VerifiedSources verify_sources(const Recording& derived, bool all, Progress& progress) {
  VerifiedSources verified;
  for (const Json& made_by : makers_of(derived)) {
    DeriveOptions options;
    std::map<std::string, std::string> keys;
    int version = 0;
    read_manifest(derived.path(), [&] {
      const Json settings = settings_in(made_by);
      options.transforms = settings.at("transforms");
      options.step = settings.at("step").get<uint64_t>();
      options.without = settings.at("without").get<std::vector<std::string>>();
      version = settings.at("version").get<int>();
      for (const auto& [session, key] : made_by.at("settings").at("keys").items())
        keys[session] = key.get<std::string>();
      verified.source = made_by.at("sources").at(0).at("path").get<std::string>();
    });
    if (version != kTransformsVersion)
      throw Error("{}: made by version {} of the transforms, and this is {}; make it again",
                  derived.path().string(), version, kTransformsVersion);
    verified.is_there = fs::exists(verified.source / "manifest.json");
    if (!verified.is_there) return verified;
    const Recording source = Recording::open(verified.source);
    const Transforms transforms(source, options.transforms);
    for (const auto& [name, key] : keys) options.sessions.push_back(name);
    for (const auto& [name, key] : keys) {
      const Session& session = source.session(name);
      if (hex(transform_key(source, name, derived_settings(options), transforms.fields())) != key)
        throw Error(
            "{}: session '{}' of {}, its split or a Python function has changed since it was made; "
            "delete {} and make it again",
            derived.path().string(), name, verified.source.string(), derived.path().string());
      if (options.step > 1) continue;
      progress.begin("comparing " + name, session.segments.size(), "segments");
      uint64_t done = 0;
      for (const Segment& segment : session.segments) {
        for (const TransformedField& field : transforms.fields())
          if (const Field* stored = derived.session(name).segment(segment.name).find(field.name);
              stored && !stored->place.in_place && !transforms.needs_python(field))
            verified.rows += compare_rows(transforms, session, segment, *stored, all);
        progress.advance(++done);
      }
      progress.end();
    }
  }
  return verified;
}

}  // namespace lacuna
