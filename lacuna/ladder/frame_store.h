// A store of frames: what `lacuna prepare RECORDING` writes, and the disk rungs beside disk:u8
// read.
//
//   store/manifest.json                       which rung and field, and the sessions
//   store/SESSION/manifest.json               that session: what it was made from, its files
//   store/SESSION/SEGMENT/FIELD.npy           [T, Y, X] bf16 (as <u2) or f32, and
//   store/SESSION/SEGMENT/FIELD.check.npy     u32 [T], as beside a recording's own fields, or
//   store/SESSION/SEGMENT/FIELD.zarr/         chunks of u8 (store/zarr/zarr_writer.h)
//
// Each session is a directory of its own (store/directory.h), written and finished alone: a kill
// costs the session that was being written, and a session added to the recording prepares only
// itself. A session whose frames have changed is refused by name.
//
// Whoever reads a store holds its lock (shared), so that `prepare --again` and `clean` cannot pull
// it from under a training; the lock is gone with the process, however that ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/recording/recording.h"

namespace lacuna {

// What a store holds: which frames, and how.
struct FrameStoreSettings {
  Form form = Form::bf16;  // bf16, f32, chunks
  std::string field = "stim";
  std::string compressor = "lz4";  // of chunks: lz4, zstd, ..
  uint64_t rows_per_chunk = 33;    // of chunks: about a window

  bool operator==(const FrameStoreSettings&) const = default;
};
Json to_json(const FrameStoreSettings& settings);
// Whether a manifest says the same of what decides its bytes.
bool has_settings(const Json& manifest, const FrameStoreSettings& settings);

// A session of a store, in the recording's order of segments.
struct StoredSession {
  std::string name;
  std::vector<Field> fields;     // [segments]; dtype and shape of what is stored
  std::vector<fs::path> chunks;  // [segments] of Form::chunks, else empty
  uint64_t bytes = 0;            // on disk
  uint64_t xxh3 = 0;             // of what all its files hold
};

class FrameStore {
 public:
  static constexpr const char* kFormat = "lacuna.frames";
  static constexpr const char* kSessionFormat = "lacuna.frames.session";
  static constexpr int kVersion = 1;
  static DirectoryFormat format();
  static DirectoryFormat session_format();

  // Throws Error for a store that is missing, unfinished or damaged, of another rung or field than
  // asked for, made from other frames than the recording has, with the command that makes it, or
  // being written.
  static FrameStore open(const fs::path& path, const Recording& recording, Form form,
                         const std::string& field);

  const fs::path& path() const { return path_; }
  const FrameStoreSettings& settings() const { return settings_; }
  // Throws Error with the command that prepares it where the store lacks the session.
  const StoredSession& session(const std::string& name) const;
  const std::vector<StoredSession>& sessions() const { return sessions_; }
  uint64_t bytes() const;
  // Shared by copies; nobody writes to the store while one of them lives.
  const std::shared_ptr<const DirectoryLock>& lock() const { return lock_; }
  // Reads every byte against the checksums, and a sample of frames (or all) against the recording.
  // Throws Error naming the first that differs.
  void verify(const Recording& recording, bool all, Progress& progress) const;

 private:
  fs::path path_;
  FrameStoreSettings settings_;
  std::string recording_;  // for commands
  std::shared_ptr<const DirectoryLock> lock_;
  std::vector<StoredSession> sessions_;
};

struct PrepareFramesOptions {
  std::vector<std::string> sessions = {};  // only these; empty: all
  bool again = false;                      // also those that are there
  Json made_by = Json::object();
};
struct PreparedFrames {
  uint64_t sessions = 0, written = 0, bytes = 0;  // in the store; by this call; on disk
  bool is_stopped = false;                        // by a signal: what was finished is kept
};
// Writes or completes the store at `out`. Throws Error before anything is written where the disk is
// too small, the field is not of a type that can be stored so, or another store lies there.
PreparedFrames prepare_frames(const Recording& recording, const FrameStoreSettings& settings,
                              const fs::path& out, const PrepareFramesOptions& options,
                              Progress& progress = Progress::none());
// "lacuna prepare REC --rung disk:bf16 --out STORE"
std::string prepare_frames_command(const fs::path& recording, const FrameStoreSettings& settings,
                                   const fs::path& out);
// Of a session's stimulus, all segments: what a stored session depends on.
uint64_t frames_hash(const Session& session, const std::string& field);

}  // namespace lacuna
