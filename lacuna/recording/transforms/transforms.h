// Fields made from fields, as a config says: source field -> ops (transform_op.h) -> new field,
// several joined into one.
//
//   gaze:                     # a new field
//     from: behavior
//     ops: [{columns: {take: [0, 1]}}, {difference: {}}, symlog]
//   inputs:
//     from: [gaze, pupil]     # joined on the last axis; fields above may be sources
//     role: behaviour         # unless given: the first source's
//   stim:                     # a new field may have the name of its source, and take its place
//     from: stim
//     ops: [{crop: {y: 10, x: 10, height: 30, width: 30}}]
//
// Filters do not reach across trials or gaps (across_trials: true in the field's settings lets
// them); rows outside trials are filtered among themselves. Statistics come from the training rows
// of a split (`split` in the op's settings; where the recording has one split only, that), over the
// segment, unless the op is told otherwise (over: session or recording; rows: all).
//
// A result is f32, u8 where all sources are u8 and every op keeps bytes, or what its last cast
// says. Behaviour stays f32 unless it is cast.
//
// The op `python: FILE.py:FUNCTION` stands anywhere among the ops (or, alone, instead of them): it
// is what the user's function makes of a whole segment, called once a segment by whoever writes the
// result (derive_recording.h). As the first op it gets the sources one by one, each as it is stored
// (bits as u8, bf16 as f32); after other ops, the one array that they gave.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/recording/recording.h"
#include "lacuna/recording/transforms/transform_op.h"
#include "lacuna/recording/trials.h"

namespace lacuna {

// Changes where a transform would give other numbers than before: part of a store's key.
inline constexpr int kTransformsVersion = 2;
inline constexpr uint64_t kTransformBlockBytes = 1 << 23;  // of f32 rows made at once

struct TransformedField {
  std::string name;
  std::vector<std::string> from;
  std::optional<FieldRole> role;
  bool across_trials = false;
  std::vector<std::pair<std::string, Json>> ops;  // name, settings

  bool calls_python() const;
};

// Calls the user's function "FILE.py:FUNCTION" of a field on arrays of one segment, all rows; gives
// [T, ...] in u8 or f32.
using PythonCall = std::function<Array(const TransformedField& field, const std::string& call,
                                       const Session& session, const Segment& segment,
                                       const std::vector<Array>& sources)>;

class Transforms {
 public:
  // settings: as above, as JSON. Throws Error naming field and op for what cannot be. Without a
  // `python`, rows of fields that call it are refused.
  Transforms(const Recording& recording, const Json& settings, PythonCall python = {});
  ~Transforms();

  const Json& settings() const { return settings_; }
  const std::vector<TransformedField>& fields() const { return fields_; }
  bool has(const std::string& name) const;

  // Of a field that is made here, in one segment. Throws Error where a source is missing there, or
  // an op cannot take its rows.
  DType dtype(const Session& session, const Segment& segment, const std::string& name) const;
  Shape row_shape(const Session& session, const Segment& segment, const std::string& name) const;
  FieldRole role(const Segment& segment, const std::string& name) const;
  // Throws as row_shape() does, as far as that can be known before Python is called.
  void check_rows(const Session& session, const Segment& segment, const std::string& name) const;
  bool needs_python(const TransformedField& field) const;  // it, or a source of it, calls Python
  // The most that any op of it needs: pointwise < neighbour < whole_segment.
  OpKind kind(const std::string& name) const;
  // What is lost in precision, in words; empty: nothing.
  std::vector<std::string> losses(const std::string& name) const;

  // All rows of a segment, oldest first, piece by piece, as dtype() says. Rows are compared with
  // their checksums.
  using Take = std::function<void(std::span<const std::byte> rows)>;
  void run(const Session& session, const Segment& segment, const std::string& name,
           const Take& take) const;
  // Rows first .. first + count - 1 as f32, for those who want a few: the same numbers.
  RowBlock rows(const Session& session, const Segment& segment, const std::string& name,
                uint64_t first, uint64_t count) const;
  // u8 [T]: 1 where a row of the result holds a value that is not finite; empty: nowhere. Reads
  // rows around those of the sources only.
  std::vector<uint8_t> nan_rows(const Session& session, const Segment& segment,
                                const std::string& name) const;
  // u8 [T]: 0 where a row of the result is made of one that SOURCE_valid ([T], of role validity)
  // marks as not to be read; empty: nowhere.
  std::vector<uint8_t> valid_rows(const Session& session, const Segment& segment,
                                  const std::string& name) const;
  // Of a result, in one segment; where Python has a part in it, that of its sources as f32.
  uint64_t likely_bytes(const Session& session, const Segment& segment,
                        const std::string& name) const;
  // Of the recording's own fields that it is made from, in one segment.
  uint64_t source_bytes(const Session& session, const Segment& segment,
                        const std::string& name) const;

  // For loader threads: warm() finds statistics and maps sources of a segment; warm_rows() is then
  // rows() without a lock, as long as nobody warms another one meanwhile.
  void warm(const Session& session, const Segment& segment, const std::string& name) const;
  RowBlock warm_rows(const Session& session, const Segment& segment, const std::string& name,
                     uint64_t first, uint64_t count) const;

 private:
  struct State;
  Recording recording_;
  Json settings_;
  std::vector<TransformedField> fields_;
  std::unique_ptr<State> state_;
};

// XXH3 of what decides a result: the source session's fingerprint (the whole recording's where a
// statistic is over it), the settings, the version, the split that statistics take their rows
// from, and the files of Python functions.
uint64_t transform_key(const Recording& source, const std::string& session, const Json& settings,
                       const std::vector<TransformedField>& fields);

}  // namespace lacuna
