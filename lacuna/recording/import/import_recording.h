// A recording from foreign data (docs/import.md): sources are opened (foreign.h), their arrays
// become fields of sessions and segments, and rows are copied block by block, so that memory stays
// at some tens of megabytes whatever the size.
//
// The path of an array in its source says where it belongs: "stim" is a field of the source's only
// segment, "gratings/stim" of segment gratings, "m1/gratings/stim" of session m1. A source with
// three parts makes several sessions; all others make one, or a segment of one: two sources of the
// same session name are two segments of it.
//
// Nothing is guessed but roles, by the names that labs use (field_names.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/recording/import/foreign.h"
#include "lacuna/recording/recording.h"

namespace lacuna {

struct ImportedSource {
  fs::path path;
  std::string session;                  // empty: the stem of the path, or as the source says
  std::string segment;                  // of arrays without one; empty: "main"
  std::string subject = {};             // empty: of the metadata, or none
  std::optional<double> rate = {};      // bins a second
  std::vector<std::string> units = {};  // names; empty: of the metadata, or numbers
  std::string group = {};               // of HDF5 and Zarr, or a key of a torch file
};

struct RecordingImport {
  std::vector<ImportedSource> sources;
  std::optional<double> rate;                 // of sources that say none
  std::map<std::string, std::string> rename;  // field in the source -> field
  std::map<std::string, FieldRole> roles;     // by field
  std::vector<std::string> skip;              // fields left out, or "segment/field"
  bool in_place = false;                      // write a manifest, leave the bytes where they are
  bool narrow = false;
  bool add = false;  // to a recording that is there
  std::string python;

  Json settings() const;  // for made_by
};

// What became of a field.
struct ImportedField {
  std::string session, segment, field, source;  // source: file and array
  FieldRole role = FieldRole::other;
  std::string from, to;  // dtypes: "f32", "u8"; "bits"
  std::string note;      // "stays f32: row 17 holds 0.5", "in place", "f32 of (k - 127) / 255"
  uint64_t rows = 0, from_bytes = 0, to_bytes = 0;
};

struct RecordingImportReport {
  std::vector<ImportedField> fields;
  std::vector<std::string> skipped;  // "label: text is no array of numbers"
};

struct ImportedRecording {
  Recording recording;
  RecordingImportReport report;
};

// Throws Error, and leaves the recording as it was or unfinished: no rate, an array that cannot be
// read, fields of different length, a session twice; with in_place an array whose bytes cannot be
// used as they lie, with the reason.
ImportedRecording import_recording(const fs::path& out, const RecordingImport& import,
                                   const std::string& command,
                                   Progress& progress = Progress::none());

}  // namespace lacuna
