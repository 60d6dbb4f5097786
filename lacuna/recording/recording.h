// A recording: sessions of movies with spike counts, many more bytes than memory.
//
// A session has one or more segments (stimulus types), a segment has fields over one time axis of T
// bins. On disk a directory of format "lacuna.recording" (docs/formats.md): one .npy file a field,
// or a reference to bytes that stay where they are. Nothing is read when a recording is opened but
// the manifest; fields are mapped.
//
// Every field has a second file beside it, NAME.check.npy, u32: the low half of the XXH3 of each
// row, or of each block of rows where rows are small. Whoever reads a row for the first time
// compares (checked_rows.h), so that a start need not read everything and a changed byte is never
// silent. A field of floats that holds values that are not finite has a third, NAME.nan.npy, u8
// [T]: 1 where a row holds one, so that windows around them are known without reading the field.
// recording_writer.h writes all of this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/store/directory.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// What a field means to windows, splits and models.
enum class FieldRole : uint8_t {
  stimulus,   // [T, Y, X] frames, u8 mostly
  counts,     // [T, units] spikes
  behaviour,  // [T, K] f32
  validity,  // [T, units]: 0 where a count is not to be used; [T]: 0 where a row is not (windows.h)
  trial,     // [T] number of the trial; a change ends a run; below 0 or NaN: outside any trial
  stimulus_id,  // [T] repeats carry the same; a split keeps one on one side; below 0 or NaN: none
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
  Shape shape;  // [T, ...]
  // Bits, least significant first, every row padded to whole bytes (numpy.unpackbits(rows, axis=1,
  // bitorder="little")). dtype is u8, shape that of the values: [T, 181] has rows of 23 bytes.
  bool packed = false;
  std::string recorded_as;  // dtype in the source, where --narrow changed it: "f32"
  FieldPlace place;
  uint64_t xxh3 = 0;        // of the rows
  uint64_t check_rows = 1;  // rows a number of check_file stands for; 1 for a stimulus
  fs::path check_file;      // NAME.check.npy, u32 [ceil(T / check_rows)]
  uint64_t nan_rows = 0;    // rows that hold a value that is not finite
  fs::path nan_file;        // NAME.nan.npy, u8 [T]; empty where nan_rows is 0

  uint64_t rows() const { return shape[0]; }
  uint64_t columns() const;    // values a row: the product of shape[1..]; 1 for [T]
  uint64_t row_bytes() const;  // as stored
  uint64_t bytes() const { return rows() * row_bytes(); }
  // As stored: packed rows come as u8 [T, row_bytes]. Throws Error for a file that is missing or
  // shorter than this. Nothing is compared: checked_rows.h does.
  Array map() const;
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
  uint64_t frames() const;                              // of all segments
};

// A part (train, validation, test, unused; screen/samples.h) for every row of every segment it
// covers, in the order of `segments`. Sessions added later are not covered: their rows are unused.
struct RecordingSplit {
  struct Covered {
    std::string session, segment;
    uint64_t first = 0, frames = 0;  // its rows in parts
  };
  std::string name;
  std::vector<Covered> segments;
  Array parts;  // [frames of all] u8
  Json how;     // how it was drawn, or where it came from

  // The parts of one segment, [T]; empty where it is not covered.
  std::span<const uint8_t> of(std::string_view session, std::string_view segment) const;
};

// Cheap to copy.
class Recording {
 public:
  static constexpr const char* kFormat = "lacuna.recording";
  static constexpr int kVersion = 1;
  static DirectoryFormat format();

  // Reads the manifest and checks the sizes of all files, those in place included. Throws Error
  // that names what is missing or truncated.
  static Recording open(const fs::path& path);

  const fs::path& path() const { return directory_.path(); }
  const Directory& directory() const { return directory_; }
  const std::vector<Session>& sessions() const { return contents_->sessions; }
  const Session& session(std::string_view name) const;  // throws Error, listing what there is
  const std::vector<RecordingSplit>& splits() const { return contents_->splits; }
  // Compared with its checksum. Throws Error, listing what there is.
  const RecordingSplit& split(std::string_view name) const;
  uint64_t bytes() const;  // of all fields
  // What a synthetic recording knows of its units (generate_units.h), compared with its checksum;
  // nothing where there is none.
  std::optional<Array> truth(std::string_view session, std::string_view name) const;
  // "session NAME" for each: rate, names of units, and of every field name, role, dtype, shape and
  // hash. Not splits, not subjects, not where bytes lie.
  const Fingerprint& fingerprint() const { return contents_->fingerprint; }
  // Reads every byte, those in place included, against the checksums.
  void check(Progress& progress) const;

 private:
  struct Contents {
    std::vector<Session> sessions;
    std::vector<RecordingSplit> splits;
    Fingerprint fingerprint;
  };
  Directory directory_;
  std::shared_ptr<const Contents> contents_;
};

Fingerprint fingerprint_of(const std::vector<Session>& sessions);

// Adds a split to a finished recording: the array first, then the manifest by rename. Throws Error
// when the name is taken.
void add_split(const fs::path& recording, const RecordingSplit& split);
// Takes a split out of a finished recording and returns it, in memory. Throws Error, listing the
// splits, where none has this name.
RecordingSplit remove_recording_split(const fs::path& recording, const std::string& name);

}  // namespace lacuna
