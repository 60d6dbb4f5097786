// Writes a new recording, or adds sessions to one that is there. Rows are appended piece by piece,
// so that a field of any size needs little memory (about 5 bytes a row).
//
//   RecordingWriter writer(path, {.add = false});
//   writer.begin_session({.name = "m1_0703", .subject = "m1", .rate = 120, .units = {...}});
//   writer.begin_segment("gratings");
//   writer.begin_field("stim", FieldRole::stimulus, DType::u8, {51, 51});
//   writer.append(rows);  // as often as needed
//   writer.end_field();
//   writer.commit(made_by);
//
// Throws Error for a session, segment or field twice, a name that cannot be a file's, fields of
// different length in one segment, counts or validity that do not fit the number of units, a rate
// that is not above 0. A kill before commit() leaves an unfinished directory, or the recording as
// it was: what was added meanwhile is in no manifest, and is overwritten by the next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lacuna/recording/recording.h"

namespace lacuna {

class RecordingWriter {
 public:
  struct Options {
    bool add = false;  // to a finished recording
  };
  struct SessionInfo {
    std::string name, subject = {};
    double rate = 0;  // bins a second
    std::vector<std::string> units =
        {};  // empty: no counts, or numbered from 0 as wide as they are
  };
  struct FieldInfo {
    std::string name;
    FieldRole role = FieldRole::other;
    DType dtype = DType::u8;
    Shape row_shape = {};          // {} for [T]
    bool packed = false;           // rows arrive as bits, see Field::packed
    std::string recorded_as = {};  // dtype in the source, where that was another
    uint64_t rows = 0;             // where known: the file is not read again for its checksum
  };
  // Throws Error also where something else is there, or another program writes there.
  RecordingWriter(const fs::path& path, const Options& options, const Json& made_by = {});
  ~RecordingWriter();
  RecordingWriter(const RecordingWriter&) = delete;
  RecordingWriter& operator=(const RecordingWriter&) = delete;

  void begin_session(const SessionInfo& info);
  void begin_segment(const std::string& name);
  void begin_field(const FieldInfo& info);
  void begin_field(const std::string& name, FieldRole role, DType dtype, Shape row_shape,
                   const std::string& recorded_as = {});
  void append(std::span<const std::byte> rows);  // whole rows
  void end_field();
  // All of a field at once: begin_field(), append(), end_field().
  void add_field(const std::string& name, FieldRole role, const Array& rows);
  // A field that stays where it is: its bytes are read once, for the checksums. shape is [T, ...].
  void add_in_place(const std::string& name, FieldRole role, DType dtype, Shape shape,
                    const FieldPlace& place, Progress& progress = Progress::none());
  // A field of another recording, which stays there: its checksums are taken over, nothing is read.
  void add_reference(const Field& field);
  // Something known of the session beside its rows: truth/SESSION.NAME.npy (Recording::truth()).
  void add_truth(const std::string& name, const Array& array);
  // Finishes it; made_by as for screens: {"command", "settings", "sources"}.
  Recording commit(const Json& made_by);
  // Instead of commit(): removes all that was written. What was there before stays.
  void discard();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
