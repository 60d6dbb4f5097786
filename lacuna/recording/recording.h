// A recording: sessions of movies with spike counts, many more bytes than memory.
//
// A session has one or more segments (stimulus types), a segment has fields over one time axis of T
// bins. On disk a directory of format "lacuna.recording" (docs/formats.md): one .npy file a field,
// or a reference to bytes that stay where they are. Nothing is read when a recording is opened but
// the manifest; fields are mapped.
//
// A field with rows of at least kCheckedRowBytes has a second file beside it, NAME.check.npy, u32
// [T]: the low half of the XXH3 of each row. Whoever reads a row for the first time compares
// (checked_rows.h), so that a start need not read everything and a changed byte is never silent.
// Smaller fields are read and compared whole when they are opened to compute with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/store/directory.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// What a field means to windows, splits and models.
enum class FieldRole : uint8_t {
  stimulus,     // [T, Y, X] frames, u8 mostly
  counts,       // [T, units] spikes
  behaviour,    // [T, K] f32
  validity,     // [T, units] or [T]: 0 where the counts are not to be used
  trial,        // [T] number of the trial; a change ends a run
  stimulus_id,  // [T] repeats carry the same; a split keeps one on one side
  time,         // [T] f64 seconds; a gap ends a run
  other,
};
std::string_view name(FieldRole role);
FieldRole field_role_from_name(std::string_view name);  // throws Error, listing them

// Where the bytes of a field lie: contiguous rows from `offset` of a file.
struct FieldPlace {
  fs::path file;
  uint64_t offset = 0;
  bool in_place = false;  // not the recording's own: it was imported without a copy
};

struct Field {
  std::string name;  // "stim"
  FieldRole role = FieldRole::other;
  DType dtype = DType::u8;
  Shape shape;              // [T, ...]
  std::string recorded_as;  // dtype in the source, where --narrow changed it: "f32"
  FieldPlace place;
  uint64_t xxh3 = 0;    // of the rows
  fs::path check_file;  // NAME.check.npy, or empty

  uint64_t rows() const { return shape[0]; }
  uint64_t row_bytes() const;
  uint64_t bytes() const { return rows() * row_bytes(); }
  Array map() const;  // throws Error for a file that is missing or shorter than this
};

struct Segment {
  std::string name;     // "gratings"
  uint64_t frames = 0;  // T
  std::vector<Field> fields;

  const Field* find(std::string_view name) const;   // null: none
  const Field* find(FieldRole role) const;          // the first of that role; null: none
  const Field& field(std::string_view name) const;  // throws Error, listing what there is
};

struct Session {
  std::string name, subject;
  double rate = 0;                 // bins a second
  std::vector<std::string> units;  // their names
  std::vector<Segment> segments;

  const Segment& segment(std::string_view name) const;  // throws Error, listing what there is
};

// Cheap to copy.
class Recording {
 public:
  static constexpr const char* kFormat = "lacuna.recording";
  static constexpr int kVersion = 1;
  static constexpr uint64_t kCheckedRowBytes = 512;
  static DirectoryFormat format();

  // Reads the manifest and checks the sizes of all files. Throws Error that names what is missing.
  static Recording open(const fs::path& path);

  const fs::path& path() const { return directory_.path(); }
  const Directory& directory() const { return directory_; }
  const std::vector<Session>& sessions() const { return *sessions_; }
  const Session& session(std::string_view name) const;  // throws Error, listing what there is
  uint64_t bytes() const;                               // of all fields
  // "session NAME" for each: names of units, and of every field name, role, dtype, shape and hash.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  // Reads every byte, those in place included, against the checksums.
  void check(Progress& progress) const;

 private:
  Directory directory_;
  std::shared_ptr<const std::vector<Session>> sessions_;
  Fingerprint fingerprint_;
};

// Writes a new recording, or adds sessions to one that is there. Rows are appended piece by piece,
// so that a field of any size needs little memory.
//
//   RecordingWriter writer(path, {.add = false});
//   writer.begin_session({.name = "m1_0703", .subject = "m1", .rate = 120, .units = {...}});
//   writer.begin_segment("gratings");
//   writer.begin_field("stim", FieldRole::stimulus, DType::u8, {51, 51});
//   writer.append(rows);  // as often as needed
//   writer.end_field();
//   writer.commit(made_by);
//
// Throws Error for a session or field twice, fields of different length in one segment, units that
// do not fit the counts. A kill before commit() leaves an unfinished directory, or the recording as
// it was.
class RecordingWriter {
 public:
  struct Options {
    bool add = false;  // to a finished recording
  };
  struct SessionInfo {
    std::string name, subject;
    double rate = 0;
    std::vector<std::string> units;
  };
  RecordingWriter(const fs::path& path, const Options& options);
  ~RecordingWriter();

  void begin_session(const SessionInfo& info);
  void begin_segment(const std::string& name);
  void begin_field(const std::string& name, FieldRole role, DType dtype, Shape row_shape,
                   const std::string& recorded_as = {});
  void append(std::span<const std::byte> rows);
  void end_field();
  // A field that stays where it is: its bytes are read once, for the checksums.
  void add_in_place(const std::string& name, FieldRole role, DType dtype, Shape shape,
                    const FieldPlace& place, Progress& progress = Progress::none());
  Recording commit(const Json& made_by);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
