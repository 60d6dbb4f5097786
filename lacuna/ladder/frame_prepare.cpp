#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/ladder/chunk_sample.h"
#include "lacuna/ladder/frame_holder.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/ladder/guards.h"
#include "lacuna/ladder/what_fits.h"
#include "lacuna/recording/field_json.h"
#include "lacuna/store/zarr/zarr_writer.h"

namespace lacuna {
namespace {

constexpr uint64_t kBlockBytes = uint64_t(8) << 20;  // read and written at a time

DType stored_dtype(Form form) { return held_dtype({Place::disk, form}); }

// The rows of a segment on their way into the store: cast, hashed, written.
class SegmentWriter {
 public:
  SegmentWriter(DirectoryWriter& directory, const FrameStoreSettings& settings,
                const Segment& segment, DType dtype, const Shape& row_shape)
      : directory_(directory), settings_(settings), stem_(segment.name + "/" + settings.field) {
    field_.name = settings.field;
    field_.role = FieldRole::stimulus;
    field_.dtype = stored_dtype(settings.form);
    field_.shape = {0};
    field_.shape.insert(field_.shape.end(), row_shape.begin(), row_shape.end());
    field_.check_rows = 1;
    const uint64_t pixels =
        std::accumulate(row_shape.begin(), row_shape.end(), uint64_t(1), std::multiplies<>());
    cast_ = {dtype, field_.dtype, pixels};
    if (settings.form == Form::chunks) {
      fs::create_directories(directory.path() / segment.name);
      zarr_.emplace(directory.path() / (stem_ + ".zarr"), DType::u8, row_shape,
                    ZarrWriterSettings{.rows_per_chunk = settings.rows_per_chunk,
                                       .compressor = settings.compressor,
                                       .threads = 0});
    } else {
      npy_.reset(new NpyWriter(directory.open_array(stem_ + ".npy", field_.dtype, row_shape)));
    }
  }

  void append(std::span<const std::byte> rows) {
    const uint64_t count = rows.size() / cast_.from_bytes(), bytes = cast_.to_bytes();
    if (!cast_.is_copy()) {
      buffer_.resize(count * bytes);
      cast_(rows.data(), count, buffer_.data());
      rows = buffer_;
    }
    whole_.add(rows);
    field_.shape[0] += count;
    if (zarr_) {
      zarr_->append(rows);
      return;
    }
    for (uint64_t r = 0; r < count; ++r)
      checks_.push_back(uint32_t(hash64(rows.subspan(r * bytes, bytes))));
    npy_->append(rows);
  }

  Field finish() {
    field_.xxh3 = whole_.value();
    if (zarr_) {
      zarr_->close();
      for (const std::string& file : zarr_->files()) directory_.add_file(stem_ + ".zarr/" + file);
    } else {
      field_.place.offset = npy_header(npy_description(field_.dtype), field_.shape).size();
      directory_.add_array(stem_ + ".npy", *npy_);
      directory_.add_array(stem_ + ".check.npy", Array::from(std::move(checks_)));
    }
    return field_;
  }

 private:
  DirectoryWriter& directory_;
  const FrameStoreSettings& settings_;
  std::string stem_;  // "gratings/stim"
  Field field_;
  FrameCast cast_;
  std::unique_ptr<NpyWriter> npy_;
  std::optional<ZarrWriter> zarr_;
  Hasher whole_;
  std::vector<uint32_t> checks_;
  std::vector<std::byte> buffer_;
};

class FramePreparer {
 public:
  FramePreparer(const Recording& recording, const FrameStoreSettings& settings, const fs::path& out,
                const PrepareFramesOptions& options, Progress& progress)
      : recording_(recording),
        settings_(settings),
        out_(out),
        options_(options),
        progress_(progress) {}

  PreparedFrames run() {
    const std::vector<const Session*> missing = find_missing();
    check_room(missing);
    std::unique_ptr<DirectoryLock> lock;
    if (fs::exists(out_)) lock = DirectoryWriter::lock(out_);
    if (fs::exists(out_ / kManifest)) DirectoryWriter::reopen(out_, to_json(settings_));
    DirectoryWriter root(out_, FrameStore::format(), to_json(settings_),
                         DirectoryWriter::Leftover::keep, lock.get());
    PreparedFrames result;
    uint64_t rows = 0;
    for (const Session* session : missing) rows += count_rows(*session);
    progress_.begin("preparing frames", rows, "frames");
    try {
      for (const Session* session : missing) {
        write_session(*session);
        ++result.written;
      }
    } catch (const Stopped&) {
      result.is_stopped = true;
      return result;
    }
    progress_.end();
    Json manifest = to_json(settings_);
    manifest["sessions"] = Json::object();
    for (const Session& session : recording_.sessions()) {
      if (!is_finished(session)) continue;  // not asked for
      root.add_file(session.name + "/" + kManifest);
      const Directory there =
          Directory::open(out_ / session.name, FrameStore::kSessionFormat, FrameStore::kVersion);
      // Its own word: a session that was not asked for may have been made from other frames.
      read_manifest(there.path(), [&] {
        manifest["sessions"][session.name] = there.manifest().at("made_from").get<std::string>();
      });
      result.bytes += there.bytes();
      ++result.sessions;
    }
    manifest["made_by"] = options_.made_by;
    root.commit(manifest);
    return result;
  }

 private:
  // Segments without the field are left out, as windows leave them out.
  bool has_frames(const Segment& segment) const { return segment.find(settings_.field); }

  uint64_t count_rows(const Session& session) const {
    uint64_t rows = 0;
    for (const Segment& segment : session.segments)
      if (has_frames(segment)) rows += segment.frames;
    return rows;
  }

  bool is_finished(const Session& session) const {
    return fs::exists(out_ / session.name / kManifest);
  }

  // Throws Error where a session lies there that was made from something else.
  void check_current(const Session& session) const {
    const Directory there =
        Directory::open(out_ / session.name, FrameStore::kSessionFormat, FrameStore::kVersion);
    read_manifest(there.path(), [&] {
      const bool is_current = hash_from_hex(there.manifest().at("made_from").get<std::string>()) ==
                                  frames_hash(session, settings_.field) &&
                              has_settings(there.manifest().at("settings"), settings_);
      if (!is_current)
        throw Error(
            "store {} holds session '{}' made from other frames or with other settings; "
            "`{} --again` makes it anew",
            out_.string(), session.name,
            prepare_frames_command(recording_.path(), settings_, out_));
    });
  }

  void check_same_store() const {
    std::optional<Json> there = DirectoryWriter::unfinished_purpose(out_);
    if (!there && fs::exists(out_ / kManifest))
      there = Directory::open(out_, FrameStore::kFormat, FrameStore::kVersion).manifest();
    if (!there) {
      DirectoryWriter::check_path(out_, FrameStore::format(), DirectoryWriter::Leftover::keep);
      return;
    }
    const Json wanted = to_json(settings_);
    for (const auto& [key, value] : wanted.items())
      if (!there->contains(key) || there->at(key) != value)
        throw Error("{} is a store with {} {}, not {}; choose another folder", out_.string(), key,
                    there->contains(key) ? there->at(key).dump() : "none", value.dump());
  }

  std::vector<const Session*> find_missing() const {
    check_same_store();
    for (const std::string& name : options_.sessions) (void)recording_.session(name);
    std::vector<const Session*> missing;
    for (const Session& session : recording_.sessions()) {
      const bool is_wanted =
          options_.sessions.empty() ||
          std::ranges::find(options_.sessions, session.name) != options_.sessions.end();
      if (!is_wanted) continue;
      if (std::ranges::none_of(session.segments, [&](auto& one) { return has_frames(one); }))
        throw Error("session '{}' has no field '{}'; leave it out (--sessions)", session.name,
                    settings_.field);
      for (const Segment& segment : session.segments) check_segment(session, segment);
      if (is_finished(session) && !options_.again)
        check_current(session);
      else
        missing.push_back(&session);
    }
    return missing;
  }

  void check_segment(const Session& session, const Segment& segment) const {
    if (!has_frames(segment)) return;
    const Field& field = segment.field(settings_.field);
    const bool is_known = field.dtype == DType::u8 ||
                          (field.dtype == DType::f32 && stored_dtype(settings_.form) != DType::u8);
    if (!is_known)
      throw Error(
          "field '{}' of {}/{} is {}, and cannot be stored for rung {}; import it again "
          "with --narrow",
          field.name, session.name, segment.name, name(field.dtype),
          name(Rung{Place::disk, settings_.form}));
  }

  void check_room(const std::vector<const Session*>& missing) const {
    uint64_t pixels = 0;
    for (const Session* session : missing)
      for (const Segment& segment : session->segments) {
        if (!has_frames(segment)) continue;
        pixels += segment.frames * segment.field(settings_.field).columns();
      }
    uint64_t needed = pixels * item_size(stored_dtype(settings_.form));
    if (settings_.form == Form::chunks && needed > 0)
      needed =
          uint64_t(double(needed) /
                   sample_chunks(recording_, settings_, {.chunks = 48, .seconds = 0.3}).ratio());
    const Room room = disk_room(needed, out_);
    if (room.fits()) return;
    const Rung rung = {Place::disk, settings_.form};
    check_disk_room(needed, out_, fmt::format("rung {}", name(rung)),
                    what_fits(recording_, {.rung = rung,
                                           .field = settings_.field,
                                           .sessions = options_.sessions,
                                           .room = disk_room(0, out_).left()}));
  }

  void write_session(const Session& session) {
    const fs::path path = out_ / session.name;
    std::unique_ptr<DirectoryLock> lock;
    if (fs::exists(path / kManifest)) {  // --again
      lock = DirectoryWriter::lock(path);
      DirectoryWriter::reopen(path, Json());
    }
    const std::string made_from = hex(frames_hash(session, settings_.field));
    DirectoryWriter directory(path, FrameStore::session_format(),
                              {{"settings", to_json(settings_)}, {"made_from", made_from}},
                              DirectoryWriter::Leftover::discard, lock.get());
    Session stored = session;
    stored.units.clear();
    std::erase_if(stored.segments, [&](const Segment& segment) { return !has_frames(segment); });
    for (Segment& segment : stored.segments)
      segment.fields = {write_segment(directory, session.segment(segment.name))};
    directory.commit({{"settings", to_json(settings_)},
                      {"made_from", made_from},
                      {"session", to_json(stored)},
                      {"made_by", options_.made_by}});
  }

  Field write_segment(DirectoryWriter& directory, const Segment& segment) {
    const auto advance = [&](uint64_t rows) {
      throw_if_stopped();
      progress_.advance(done_ += rows);
    };
    const Field& field = segment.field(settings_.field);
    SegmentWriter writer(directory, settings_, segment, field.dtype,
                         {field.shape.begin() + 1, field.shape.end()});
    const auto source = hold_on_disk({field});
    const uint64_t block = std::max<uint64_t>(1, kBlockBytes / field.row_bytes());
    std::vector<std::byte> rows;
    for (uint64_t first = 0; first < field.rows(); first += block) {
      const uint64_t count = std::min(block, field.rows() - first);
      rows.resize(count * field.row_bytes());
      source->read_rows(0, first, count, rows.data());
      writer.append(rows);
      advance(count);
    }
    return writer.finish();
  }

  const Recording& recording_;
  const FrameStoreSettings& settings_;
  const fs::path& out_;
  const PrepareFramesOptions& options_;
  Progress& progress_;
  uint64_t done_ = 0;
};

}  // namespace

PreparedFrames prepare_frames(const Recording& recording, const FrameStoreSettings& settings,
                              const fs::path& out, const PrepareFramesOptions& options,
                              Progress& progress) {
  const bool is_form =
      settings.form == Form::bf16 || settings.form == Form::f32 || settings.form == Form::chunks;
  if (!is_form)
    throw Error("recordings are prepared for disk:bf16, disk:f32 or disk:chunks, not {}",
                name(Rung{Place::disk, settings.form}));
  return FramePreparer(recording, settings, out, options, progress).run();
}

}  // namespace lacuna
