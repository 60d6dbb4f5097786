#include "lacuna/ladder/frame_store.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/ladder/frame_holder.h"
#include "lacuna/ladder/guards.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_json.h"

namespace lacuna {
namespace {

FrameStoreSettings settings_from_json(const Json& json) {
  FrameStoreSettings settings;
  const Rung rung = rung_from_name(json.at("rung").get<std::string>(), std::span(kRecordingRungs));
  settings.form = rung.form;
  settings.field = json.at("field").get<std::string>();
  settings.compressor = json.value("compressor", settings.compressor);
  settings.rows_per_chunk = json.value("rows_per_chunk", settings.rows_per_chunk);
  return settings;
}

// The session of a store as its own manifest states it, opened and compared with what it was made
// from.
StoredSession open_session(const fs::path& store, const FrameStoreSettings& settings,
                           const Recording& recording, const Session& source,
                           const std::string& made_from) {
  const Directory directory =
      Directory::open(store / source.name, FrameStore::kSessionFormat, FrameStore::kVersion);
  StoredSession stored;
  read_manifest(directory.path(), [&] {
    const Json& manifest = directory.manifest();
    const std::string own = manifest.at("made_from").get<std::string>();
    if (own != made_from || !has_settings(manifest.at("settings"), settings) ||
        hash_from_hex(own) != frames_hash(source, settings.field))
      throw Error(
          "store {} was made from other frames of session '{}' than {} has, or with other "
          "settings; `{} --again` makes it anew",
          store.string(), source.name, recording.path().string(),
          prepare_frames_command(recording.path(), settings, store));
    const Session session = session_from_json(directory.manifest().at("session"), store);
    stored.name = session.name;
    for (const Segment& segment : session.segments) {
      stored.fields.push_back(segment.fields.at(0));
      if (settings.form == Form::chunks)
        stored.chunks.push_back(store / session.name / segment.name / (settings.field + ".zarr"));
    }
  });
  stored.bytes = directory.bytes();
  Hasher hasher;
  for (const auto& [file, entry] : directory.files()) {
    hasher.add(fmt::format("{} {}\n", file, hex(entry.xxh3)));
    // What says how chunks lie is small, and has no checksum of its own.
    if (file.ends_with("/zarr.json") && hash_file(directory.path() / file) != entry.xxh3)
      throw Error("{}: its bytes have changed since it was written; prepare the session again",
                  (directory.path() / file).string());
  }
  stored.xxh3 = hasher.value();
  return stored;
}

}  // namespace

DirectoryFormat FrameStore::format() {
  return {.name = kFormat,
          .version = kVersion,
          .files = {"*/manifest.json", "*/manifest.partial.json", "*/*/*.npy",
                    "*/*/*.zarr/zarr.json", "*/*/*.zarr/c/*", "*/*/*.zarr/c/*/*",
                    "*/*/*.zarr/c/*/*/*", "*/*/*.zarr/c/*/*/*/*"}};
}

DirectoryFormat FrameStore::session_format() {
  return {.name = kSessionFormat,
          .version = kVersion,
          .files = {"*/*.npy", "*/*.zarr/zarr.json", "*/*.zarr/c/*", "*/*.zarr/c/*/*",
                    "*/*.zarr/c/*/*/*", "*/*.zarr/c/*/*/*/*"}};
}

Json to_json(const FrameStoreSettings& settings) {
  Json json = {{"rung", name(Rung{Place::disk, settings.form})}, {"field", settings.field}};
  if (settings.form == Form::chunks) {
    json["compressor"] = settings.compressor;
    json["rows_per_chunk"] = settings.rows_per_chunk;
  }
  return json;
}

bool has_settings(const Json& manifest, const FrameStoreSettings& settings) {
  return to_json(settings_from_json(manifest)) == to_json(settings);
}

uint64_t frames_hash(const Session& session, const std::string& field) {
  Hasher hasher;
  for (const Segment& segment : session.segments)
    if (const Field* frames = segment.find(field))
      hasher.add(fmt::format("{} {} {} [{}]\n", segment.name, hex(frames->xxh3),
                             name(frames->dtype), fmt::join(frames->shape, ", ")));
  return hasher.value();
}

std::string prepare_frames_command(const fs::path& recording, const FrameStoreSettings& settings,
                                   const fs::path& out) {
  std::string command =
      fmt::format("lacuna prepare {} --rung {} --out {}", shell_word(recording.string()),
                  name(Rung{Place::disk, settings.form}), shell_word(out.string()));
  if (settings.field != "stim") command += " --field " + shell_word(settings.field);
  const FrameStoreSettings usual;
  if (settings.form == Form::chunks && settings.compressor != usual.compressor)
    command += " --compressor " + shell_word(settings.compressor);
  if (settings.form == Form::chunks && settings.rows_per_chunk != usual.rows_per_chunk)
    command += fmt::format(" --rows-per-chunk {}", settings.rows_per_chunk);
  return command;
}

FrameStore FrameStore::open(const fs::path& path, const Recording& recording, Form form,
                            const std::string& field) {
  FrameStoreSettings wanted;
  wanted.form = form;
  wanted.field = field;
  const std::string command = prepare_frames_command(recording.path(), wanted, path);
  if (!fs::is_directory(path))
    throw Error("there is no store {}; `{}` makes it", path.string(), command);
  auto lock = std::make_shared<const DirectoryLock>(path, DirectoryLock::Use::reading);
  if (DirectoryWriter::unfinished_purpose(path))
    throw Error("store {} is unfinished; `{}` completes it", path.string(), command);
  const Directory directory = Directory::open(path, kFormat, kVersion);
  FrameStore store;
  store.path_ = path;
  store.lock_ = std::move(lock);
  store.recording_ = recording.path().string();
  read_manifest(path, [&] {
    store.settings_ = settings_from_json(directory.manifest());
    if (store.settings_.form != form || store.settings_.field != field)
      throw Error(
          "store {} holds field '{}' for rung {}, but field '{}' for {} is asked for; `{}` "
          "makes one",
          path.string(), store.settings_.field, name(Rung{Place::disk, store.settings_.form}),
          field, name(Rung{Place::disk, form}), command);
    for (const auto& [session, made_from] : directory.manifest().at("sessions").items()) {
      const auto found = std::ranges::find(recording.sessions(), session, &Session::name);
      if (found == recording.sessions().end()) continue;  // the recording has been made smaller
      store.sessions_.push_back(
          open_session(path, store.settings_, recording, *found, made_from.get<std::string>()));
    }
  });
  return store;
}

const StoredSession& FrameStore::session(const std::string& name) const {
  const auto found = std::ranges::find(sessions_, name, &StoredSession::name);
  if (found == sessions_.end())
    throw Error("store {} lacks session '{}'; `{}` adds it", path_.string(), name,
                prepare_frames_command(recording_, settings_, path_));
  return *found;
}

uint64_t FrameStore::bytes() const {
  uint64_t bytes = 0;
  for (const StoredSession& session : sessions_) bytes += session.bytes;
  return bytes;
}

void FrameStore::verify(const Recording& recording, bool all, Progress& progress) const {
  for (const StoredSession& stored : sessions_)
    Directory::open(path_ / stored.name, kSessionFormat, kVersion).check(progress);
  constexpr uint64_t kBlock = 64;  // frames compared at a time
  constexpr uint64_t kSome = 32;   // such blocks of a segment
  uint64_t total = 0, done = 0;
  for (const StoredSession& stored : sessions_)
    for (const Field& field : stored.fields) total += field.rows();
  progress.begin("comparing frames", total, "frames");
  for (const StoredSession& stored : sessions_) {
    const Session& session = recording.session(stored.name);
    std::vector<const Segment*> segments;  // those that have frames
    for (const Segment& segment : session.segments)
      if (segment.find(settings_.field)) segments.push_back(&segment);
    LACUNA_ASSERT(segments.size() == stored.fields.size());
    const auto holder = settings_.form == Form::chunks
                            ? hold_chunks(stored, false, Progress::none())
                            : hold_on_disk(stored.fields);
    for (uint32_t g = 0; g < stored.fields.size(); ++g) {
      const Field& there = stored.fields[g];
      const Field& here = segments[g]->field(settings_.field);
      const FrameCast cast = {here.dtype, there.dtype, here.columns()};
      const auto source = hold_on_disk({here});
      std::vector<std::byte> rows(kBlock * cast.from_bytes()), expected(kBlock * cast.to_bytes()),
          found(kBlock * cast.to_bytes());
      const uint64_t stride = all ? kBlock : std::max<uint64_t>(kBlock, there.rows() / kSome);
      for (uint64_t first = 0; first < there.rows(); first += stride) {
        throw_if_stopped();
        const uint64_t count = std::min(kBlock, there.rows() - first);
        source->read_rows(0, first, count, rows.data());
        cast(rows.data(), count, expected.data());
        holder->read_rows(g, first, count, found.data());
        if (std::memcmp(expected.data(), found.data(), count * cast.to_bytes()) != 0)
          throw Error(
              "store {}: frames {} to {} of {}/{} are not those of {}; prepare it again "
              "(--again)",
              path_.string(), first, first + count - 1, session.name, segments[g]->name,
              recording.path().string());
      }
      progress.advance(done += there.rows());
    }
  }
  progress.end();
}

}  // namespace lacuna
