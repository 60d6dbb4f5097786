#include "lacuna/recording/transforms/derive_recording.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/recording_writer.h"
#include "lacuna/recording/transforms/derived_sources.h"
#include "lacuna/recording/trials.h"
#include "lacuna/screen/samples.h"

namespace lacuna {
namespace {

// The first rows of groups of `step`, trial by trial, and the number of the piece each lies in.
struct Groups {
  std::vector<uint64_t> first;
  std::vector<int32_t> piece;  // -1 outside trials
};

Groups find_groups(const Session& session, const Segment& segment, uint64_t step) {
  Groups groups;
  uint64_t at = 0;
  int32_t number = 0;
  const auto add = [&](uint64_t begin, uint64_t end, int32_t piece) {
    for (uint64_t t = begin; t + step <= end; t += step) {
      groups.first.push_back(t);
      groups.piece.push_back(piece);
    }
  };
  for (const Stretch& stretch : find_stretches(session, segment, 1.5)) {
    add(at, stretch.begin, -1);
    add(stretch.begin, stretch.end, number++);
    at = stretch.end;
  }
  add(at, segment.frames, -1);
  return groups;
}

enum class Reduce { take, sum, mean, all };
Reduce reduce_of(const Field& field) {
  switch (field.role) {
    case FieldRole::counts:
      return Reduce::sum;
    case FieldRole::validity:
      return Reduce::all;
    case FieldRole::behaviour:
      return Reduce::mean;
    case FieldRole::other:
      return field.dtype == DType::f32 || field.dtype == DType::f64 || field.dtype == DType::bf16
                 ? Reduce::mean
                 : Reduce::take;
    default:
      return Reduce::take;
  }
}

DType reduced_dtype(const Field& field, Reduce reduce) {
  if (reduce == Reduce::take) return field.dtype;
  if (reduce == Reduce::mean) return DType::f32;
  if (reduce == Reduce::all) return DType::u8;
  return field.dtype == DType::u8    ? DType::u16
         : field.dtype == DType::u16 ? DType::u32
                                     : field.dtype;
}

// Of a group of rows as numbers, [step, columns]: one row.
float reduced(Reduce reduce, const std::vector<float>& rows, uint64_t columns, uint64_t c) {
  double sum = 0;
  bool is_all = true;
  for (uint64_t i = c; i < rows.size(); i += columns) {
    sum += double(rows[i]);
    is_all &= rows[i] != 0 && !std::isnan(rows[i]);
  }
  if (reduce == Reduce::all) return is_all ? 1.0f : 0.0f;
  return float(reduce == Reduce::mean ? sum * double(columns) / double(rows.size()) : sum);
}

void append_number(DType dtype, float value, std::vector<std::byte>& out) {
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    const T number = T(value);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
    out.insert(out.end(), bytes, bytes + sizeof number);
  });
}

bool is_result(const DeriveOptions& options, const std::string& name) {
  return std::ranges::find(options.without, name) == options.without.end();
}

// Adds what a session will take on disk: fields that are made, with a step all of them, and 4 bytes
// of checksums a row at most.
void add_need(const Transforms& transforms, const DeriveOptions& options, const Session& session,
              DeriveNeed& need) {
  uint64_t bytes = 0;
  for (const Segment& segment : session.segments) {
    const uint64_t rows = segment.frames / options.step;
    for (const Field& field : segment.fields)
      if (options.step > 1 && is_result(options, field.name) && !transforms.has(field.name)) {
        const uint64_t item = item_size(reduced_dtype(field, reduce_of(field)));
        bytes += rows * (sizeof(uint32_t) + field.columns() * item);
        if (field.role == FieldRole::stimulus)
          need.frame.assign(field.shape.begin() + 1, field.shape.end());
      }
    for (const TransformedField& made : transforms.fields()) {
      if (!is_result(options, made.name)) continue;
      bytes += rows * sizeof(uint32_t);
      bytes += transforms.likely_bytes(session, segment, made.name) / options.step;
      if (transforms.role(segment, made.name) != FieldRole::stimulus ||
          transforms.needs_python(made))
        continue;
      need.frame = transforms.row_shape(session, segment, made.name);
      need.has_floats = transforms.dtype(session, segment, made.name) == DType::f32;
    }
  }
  need.session_bytes.push_back(bytes);
}

// One session of the result.
class SessionDeriver {
 public:
  SessionDeriver(RecordingWriter& writer, const Transforms& transforms,
                 const DeriveOptions& options, const Session& session)
      : writer_(writer), transforms_(transforms), options_(options), session_(session) {}

  void make() {
    writer_.begin_session({.name = session_.name,
                           .subject = session_.subject,
                           .rate = session_.rate / double(options_.step),
                           .units = session_.units});
    for (const Segment& segment : session_.segments) {
      writer_.begin_segment(segment.name);
      const Groups groups =
          options_.step > 1 ? find_groups(session_, segment, options_.step) : Groups();
      if (options_.step > 1 && groups.first.empty())
        throw Error("{}/{}: no trial has {} rows; use a smaller step", session_.name, segment.name,
                    options_.step);
      const auto validity = made_validity(segment);
      for (const Field& field : segment.fields)
        if (is_kept(field.name) && !validity.contains(field.name)) add_own(field, groups);
      for (const TransformedField& field : transforms_.fields())
        if (is_kept_result(field.name)) add_made(segment, field, groups);
      for (const auto& [name, flags] : validity) add_validity(name, flags, groups);
      if (options_.step > 1) writer_.add_field("run", FieldRole::trial, Array::from(groups.piece));
    }
  }

 private:
  bool is_kept_result(const std::string& name) const { return is_result(options_, name); }
  bool is_kept(const std::string& name) const {
    return is_kept_result(name) && !transforms_.has(name) && !(options_.step > 1 && name == "run");
  }
  // NAME_valid of results that read rows which their sources mark: u8 [T] by name.
  std::map<std::string, std::vector<uint8_t>> made_validity(const Segment& segment) const {
    std::map<std::string, std::vector<uint8_t>> validity;
    for (const TransformedField& field : transforms_.fields()) {
      const std::string name = field.name + "_valid";
      if (!is_kept_result(field.name) || !is_kept_result(name) || transforms_.has(name)) continue;
      std::vector<uint8_t> flags = transforms_.valid_rows(session_, segment, field.name);
      if (!flags.empty()) validity[name] = std::move(flags);
    }
    return validity;
  }
  void add_validity(const std::string& name, const std::vector<uint8_t>& flags,
                    const Groups& groups) {
    Field field;
    field.name = name;
    field.role = FieldRole::validity;
    field.dtype = DType::u8;
    field.shape = {flags.size()};
    if (options_.step == 1) return writer_.add_field(name, field.role, Array::from(flags));
    const auto bytes = std::as_bytes(std::span(flags));
    add_reduced(field, groups, [&](uint64_t t) { return bytes.data() + t; });
  }
  void add_own(const Field& field, const Groups& groups) {
    if (options_.step > 1) {
      SourceBytes source(field);
      add_reduced(field, groups, [&](uint64_t t) { return source.row(t); });
    } else {
      writer_.add_reference(field);
    }
  }
  struct SourceBytes {
    Array rows;
    uint64_t row_bytes;
    explicit SourceBytes(const Field& field)
        : rows(read_checked(field)), row_bytes(field.row_bytes()) {}
    const std::byte* row(uint64_t t) const { return rows.bytes().data() + t * row_bytes; }
  };
  void begin(const Field& field, DType dtype, bool packed) {
    writer_.begin_field({.name = field.name,
                         .role = field.role,
                         .dtype = dtype,
                         .row_shape = Shape(field.shape.begin() + 1, field.shape.end()),
                         .packed = packed,
                         .recorded_as = field.recorded_as});
  }
  template <class RowAt>
  void add_reduced(const Field& field, const Groups& groups, RowAt&& row_at) {
    const Reduce reduce = reduce_of(field);
    begin(field, reduced_dtype(field, reduce), reduce == Reduce::take && field.packed);
    const uint64_t columns = field.columns();
    std::vector<float> rows(options_.step * columns);
    std::vector<std::byte> out;
    for (const uint64_t t : groups.first) {
      throw_if_stopped();
      out.clear();
      if (reduce == Reduce::take) {
        const std::byte* const row = row_at(t);
        out.assign(row, row + field.row_bytes());
      } else {
        for (uint64_t k = 0; k < options_.step; ++k)
          read_row(field, row_at(t + k), rows.data() + k * columns);
        const DType dtype = reduced_dtype(field, reduce);
        for (uint64_t c = 0; c < columns; ++c)
          append_number(dtype, reduced(reduce, rows, columns, c), out);
      }
      writer_.append(out);
    }
    writer_.end_field();
  }
  // A made field, as one of the recording: what is reduced then is what a reader would see.
  void add_made(const Segment& segment, const TransformedField& made, const Groups& groups) {
    Field field;
    field.name = made.name;
    field.role = transforms_.role(segment, made.name);
    field.dtype = transforms_.dtype(session_, segment, made.name);
    field.shape = transforms_.row_shape(session_, segment, made.name);
    field.shape.insert(field.shape.begin(), segment.frames);
    if (options_.step > 1) {
      std::vector<std::byte> all;  // of one field of one segment
      transforms_.run(session_, segment, made.name,
                      [&](auto rows) { all.insert(all.end(), rows.begin(), rows.end()); });
      return add_reduced(field, groups,
                         [&](uint64_t t) { return all.data() + t * field.row_bytes(); });
    }
    begin(field, field.dtype, false);
    transforms_.run(session_, segment, made.name, [&](auto rows) { writer_.append(rows); });
    writer_.end_field();
  }

  RecordingWriter& writer_;
  const Transforms& transforms_;
  const DeriveOptions& options_;
  const Session& session_;
};

// What is referred to takes its checksums along: a damaged one would be sealed anew.
void check_checksums(const Recording& source, const Session& session) {
  for (const Segment& segment : session.segments)
    for (const Field& field : segment.fields)
      source.directory().check_file(
          field.check_file.lexically_relative(source.path()).generic_string());
}

// ---- splits
constexpr const char* kCarriedFrom = "carried_from";  // in RecordingSplit::how

// The part of a group of rows: that of all of them, or unused.
uint8_t part_of(std::span<const uint8_t> parts, uint64_t first, uint64_t step) {
  const auto group = parts.subspan(first, step);
  const bool is_one = std::ranges::all_of(group, [&](uint8_t part) { return part == group[0]; });
  return is_one ? group[0] : uint8_t(Part::unused);
}

RecordingSplit carried(const RecordingSplit& split, const Recording& source,
                       const Recording& derived, uint64_t step) {
  RecordingSplit result;
  result.name = split.name;
  std::vector<uint8_t> parts;
  for (const RecordingSplit::Covered& covered : split.segments) {
    const auto session = std::ranges::find(derived.sessions(), covered.session, &Session::name);
    if (session == derived.sessions().end()) continue;
    const uint64_t begin = parts.size();
    const auto own = split.of(covered.session, covered.segment);
    if (step == 1) {
      parts.insert(parts.end(), own.begin(), own.end());
    } else {
      const Session& from = source.session(covered.session);
      for (const uint64_t t : find_groups(from, from.segment(covered.segment), step).first)
        parts.push_back(part_of(own, t, step));
    }
    result.segments.push_back({covered.session, covered.segment, begin, parts.size() - begin});
  }
  result.how = split.how;
  result.how[kCarriedFrom] = fs::absolute(source.path()).string();
  for (const Part part : {Part::train, Part::validation, Part::test, Part::unused})
    result.how["counts"][std::string(name(part))] = std::ranges::count(parts, uint8_t(part));
  result.parts = Array::from(std::move(parts));
  return result;
}

// Adds the splits of the source that are not there, and renews those that came from it and have
// changed.
void carry_splits(const Recording& source, const Recording& derived, uint64_t step) {
  for (const RecordingSplit& split : source.splits()) {
    const RecordingSplit wanted = carried(source.split(split.name), source, derived, step);
    if (wanted.segments.empty()) continue;
    const auto there = std::ranges::find(derived.splits(), split.name, &RecordingSplit::name);
    if (there != derived.splits().end()) {
      const bool is_same = there->how == wanted.how &&
                           std::ranges::equal(there->parts.bytes(), wanted.parts.bytes());
      if (!there->how.contains(kCarriedFrom) || is_same) continue;
      remove_recording_split(derived.path(), split.name);
    }
    add_split(derived.path(), wanted);
  }
}

}  // namespace

uint64_t DeriveNeed::bytes() const {
  return std::accumulate(session_bytes.begin(), session_bytes.end(), uint64_t(0));
}

bool DeriveOptions::takes(const std::string& session) const {
  return sessions.empty() || std::ranges::find(sessions, session) != sessions.end();
}

Derived derive_recording(const Recording& source, const fs::path& out, const DeriveOptions& options,
                         const std::string& command, Progress& progress) {
  if (options.step == 0) throw Error("a step of 0 rows; use at least 1");
  const Transforms transforms(source, options.transforms, options.python);
  const Json settings = derived_settings(options);
  std::map<std::string, std::string> keys;
  if (is_there(out / kManifest)) keys = derived_keys(Recording::open(out), settings);
  std::vector<const Session*> missing;
  Json new_keys = Json::object();
  uint64_t kept = 0, frames = 0;
  for (const std::string& name : options.sessions) source.session(name);
  for (const Session& session : source.sessions()) {
    if (!options.takes(session.name)) continue;
    const std::string key = hex(transform_key(source, session.name, settings, transforms.fields()));
    const auto there = keys.find(session.name);
    if (there != keys.end() && there->second != key)
      throw Error("{}: session '{}' has changed since; delete the directory and make it again",
                  out.string(), session.name);
    if (there != keys.end()) {
      ++kept;
      continue;
    }
    for (const Segment& segment :
         session.segments)  // says what cannot be before anything is written
      for (const TransformedField& field : transforms.fields())
        transforms.check_rows(session, segment, field.name);
    missing.push_back(&session);
    new_keys[session.name] = key;
    frames += session.frames();
  }
  if (missing.empty()) {
    carry_splits(source, Recording::open(out), options.step);
    return {Recording::open(out), 0, kept};
  }
  if (options.check_room) {
    DeriveNeed need;
    for (const Session* session : missing) add_need(transforms, options, *session, need);
    options.check_room(need);
  }
  const Json made_by = {{"command", command},
                        {"settings", {{"derived", settings}, {"keys", new_keys}}},
                        {"sources",
                         {{{"path", fs::absolute(source.path()).string()},
                           {"fingerprint", hex(source.fingerprint().value())}}}}};
  RecordingWriter writer(out, {.add = !keys.empty()}, made_by);
  progress.begin("transforming", frames, "frames");
  uint64_t done = 0;
  for (const Session* session : missing) {
    check_checksums(source, *session);
    SessionDeriver(writer, transforms, options, *session).make();
    progress.advance(done += session->frames());
  }
  progress.end();
  carry_splits(source, writer.commit(made_by), options.step);
  return {Recording::open(out), missing.size(), kept};
}

}  // namespace lacuna
