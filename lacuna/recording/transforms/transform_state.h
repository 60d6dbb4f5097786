// Rows of fields that transforms make: what Transforms (transforms.h) keeps while it works. Nobody
// else includes this.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/transforms/transforms.h"

namespace lacuna {

// A source that the recording has, mapped; rows are compared when they are read.
struct SourceRows {
  Field field;
  Array rows;
  CheckedRows checked;

  explicit SourceRows(const Field& of) : field(of), rows(of.map()), checked(of) {}
  void read(RowBlock& out);
};

struct Transforms::State {
  const Recording& recording;
  const std::vector<TransformedField>& fields;
  PythonCall python;
  std::map<std::string, std::vector<std::unique_ptr<TransformOp>>> ops;
  mutable std::recursive_mutex mutex;
  mutable std::map<std::string, std::unique_ptr<SourceRows>> sources;  // "session/segment/field"
  mutable std::map<std::string, OpStatistic> statistics;               // "field/op/session/segment"
  mutable std::map<std::string, std::vector<Stretch>> pieces;
  mutable std::map<std::string, Array>
      python_results;  // "session/segment/field/op", of one segment

  State(const Recording& of, const std::vector<TransformedField>& all, PythonCall call)
      : recording(of), fields(all), python(std::move(call)) {}

  // The definition of a name as field `before` sees it: those above it; null: the recording's own.
  const TransformedField* find(const std::string& name, const TransformedField* before) const;
  const Field& own(const Session& session, const Segment& segment, const std::string& name) const;
  // Of the ops before `count`, the number of those up to and with the last that calls Python.
  static size_t after_python(const TransformedField& field, size_t count);
  // Shape of a row after the first `count` ops.
  Shape row(const Session& session, const Segment& segment, const TransformedField& field,
            size_t count) const;
  DType dtype(const Session& session, const Segment& segment, const TransformedField& field,
              size_t count) const;
  const Stretch& piece_at(const Session& session, const Segment& segment, bool across,
                          uint64_t t) const;
  // Rows of a field after its first `steps` ops; any range within the segment.
  RowBlock rows(const Session& session, const Segment& segment, const TransformedField& field,
                size_t steps, uint64_t first, uint64_t count) const;
  static uint64_t row_columns(const Shape& row);

 private:
  const std::vector<Stretch>& pieces_for(const Session& session, const Segment& segment,
                                         bool across) const;
  RowBlock source_rows(const Session& session, const Segment& segment, const std::string& name,
                       const TransformedField& of, uint64_t first, uint64_t count) const;
  RowBlock joined(const Session& session, const Segment& segment, const TransformedField& field,
                  uint64_t first, uint64_t count) const;
  RowBlock piece_rows(const Session& session, const Segment& segment, const TransformedField& field,
                      size_t steps, const Stretch& piece, uint64_t begin, uint64_t end) const;

  // ---- Python: [T, ...] of a whole segment
  Array python_result(const Session& session, const Segment& segment, const TransformedField& field,
                      size_t op) const;
  std::vector<Array> python_sources(const Session& session, const Segment& segment,
                                    const TransformedField& field, size_t op) const;
  Array all_rows(const Session& session, const Segment& segment, const TransformedField& field,
                 size_t steps) const;

  // ---- statistics
  std::span<const uint8_t> split_parts(const Session& session, const Segment& segment,
                                       const TransformedField& field, const std::string& op,
                                       const Json& settings) const;
  uint64_t learn(const Session& session, const Segment& segment, const TransformedField& field,
                 size_t i, TransformOp::Learner& learner) const;
  const OpStatistic& statistic(const Session& session, const Segment& segment,
                               const TransformedField& field, size_t i) const;
  OpStatistic learn_statistic(const Session& session, const Segment& segment,
                              const TransformedField& field, size_t i) const;
};

}  // namespace lacuna
