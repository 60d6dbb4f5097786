#include "lacuna/recording/transforms/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/screen/samples.h"

namespace lacuna {
namespace {

constexpr uint64_t kBlockBytes = 1 << 23;  // of f32 rows made at once

// Rows that filters stay within: trials without gaps, and what lies between them.
std::vector<Stretch> pieces_of(const Session& session, const Segment& segment, bool across) {
  if (across) return {{0, segment.frames, -1}};
  std::vector<Stretch> pieces;
  uint64_t at = 0;
  for (const Stretch& stretch : find_stretches(session, segment, 1.5)) {
    if (stretch.begin > at) pieces.push_back({at, stretch.begin, -1});
    pieces.push_back(stretch);
    at = stretch.end;
  }
  if (at < segment.frames) pieces.push_back({at, segment.frames, -1});
  return pieces;
}

TransformedField parse_field(const std::string& name, const Json& json) {
  TransformedField field;
  field.name = name;
  if (!json.is_object()) throw Error("it is a map with `from` and `ops`, not {}", json.dump());
  for (const auto& [key, value] : json.items()) {
    if (key == "from")
      field.from = value.is_string() ? std::vector<std::string>{value.get<std::string>()}
                                     : value.get<std::vector<std::string>>();
    else if (key == "role")
      field.role = field_role_from_name(value.get<std::string>());
    else if (key == "across_trials")
      field.across_trials = value.get<bool>();
    else if (key == "python")
      field.python = value.get<std::string>();
    else if (key == "ops")
      for (const Json& op : value) {
        if (op.is_string()) {
          field.ops.push_back({op.get<std::string>(), Json::object()});
        } else {
          if (!op.is_object() || op.size() != 1)
            throw Error("an op is a name, or a name with its settings, not {}", op.dump());
          field.ops.push_back({op.begin().key(), op.begin().value()});
        }
      }
    else
      throw Error("there is no '{}'; there is from, ops, role, across_trials, python", key);
  }
  if (field.from.empty()) throw Error("`from` names no field");
  if (!field.python.empty() && !field.ops.empty())
    throw Error("`python` and `ops` exclude each other; make two fields of it");
  return field;
}

// A source that the recording has, mapped; rows are compared when they are read.
struct SourceRows {
  Field field;
  Array rows;
  CheckedRows checked;

  explicit SourceRows(const Field& of) : field(of), rows(of.map()), checked(of) {}
  void read(RowBlock& out) {
    const std::byte* const bytes = rows.bytes().data();
    checked.check_mapped(out.first, out.count, bytes);
    for (uint64_t t = out.first; t < out.first + out.count; ++t)
      read_row(field, bytes + t * field.row_bytes(), out.at(t));
  }
};

Shape row_of(const Field& field) { return Shape(field.shape.begin() + 1, field.shape.end()); }

// Several side by side on the last axis.
Shape joined_row(const std::vector<Shape>& rows, const std::string& name) {
  if (rows.size() == 1) return rows[0];
  Shape joined = rows[0].empty() ? Shape{1} : rows[0];
  for (size_t i = 1; i < rows.size(); ++i) {
    const Shape row = rows[i].empty() ? Shape{1} : rows[i];
    if (row.size() != joined.size() ||
        !std::equal(row.begin(), row.end() - 1, joined.begin(), joined.end() - 1))
      throw Error("transform '{}': its sources have rows of [{}] and [{}], which do not join", name,
                  fmt::join(joined, ", "), fmt::join(row, ", "));
    joined.back() += row.back();
  }
  return joined;
}

void append_as(DType dtype, const RowBlock& block, std::vector<std::byte>& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + block.values.size() * item_size(dtype));
  std::byte* to = bytes.data() + before;
  if (dtype == DType::f32) {
    std::memcpy(to, block.values.data(), block.values.size() * 4);
    return;
  }
  for (const float value : block.values) {
    if (dtype == DType::u8) {
      *to++ = std::byte(uint8_t(value));
    } else {
      const BFloat16 rounded(value);
      std::memcpy(to, &rounded, 2);
      to += 2;
    }
  }
}

}  // namespace

struct Transforms::State {
  const Recording& recording;
  const std::vector<TransformedField>& fields;
  std::map<std::string, std::vector<std::unique_ptr<TransformOp>>> ops;
  mutable std::recursive_mutex mutex;
  mutable std::map<std::string, std::unique_ptr<SourceRows>> sources;  // "session/segment/field"
  mutable std::map<std::string, OpStatistic> statistics;               // "field/op/session/segment"
  mutable std::map<std::string, std::vector<Stretch>> pieces;

  State(const Recording& of, const std::vector<TransformedField>& all)
      : recording(of), fields(all) {}

  // The definition of a name as field `before` sees it: those above it; null: the recording's own.
  const TransformedField* find(const std::string& name, const TransformedField* before) const {
    const TransformedField* found = nullptr;
    for (const TransformedField& field : fields) {
      if (&field == before) break;
      if (field.name == name) found = &field;
    }
    return found;
  }
  const Field& own(const Session& session, const Segment& segment, const std::string& name) const {
    if (const Field* field = segment.find(name)) return *field;
    std::vector<std::string> names;
    for (const Field& field : segment.fields) names.push_back(field.name);
    throw Error("{}/{}: no field '{}' to transform; there is {}", session.name, segment.name, name,
                fmt::join(names, ", "));
  }

  // Shape of a row after the first `count` ops.
  Shape row(const Session& session, const Segment& segment, const TransformedField& field,
            size_t count) const {
    std::vector<Shape> rows;
    for (const std::string& source : field.from) {
      const TransformedField* made = find(source, &field);
      rows.push_back(made ? row(session, segment, *made, made->ops.size())
                          : row_of(own(session, segment, source)));
    }
    Shape shape = joined_row(rows, field.name);
    for (size_t i = 0; i < count; ++i) shape = ops.at(field.name)[i]->out_row(shape);
    return shape;
  }
  DType dtype(const Session& session, const Segment& segment, const TransformedField& field) const {
    bool is_u8 = true;
    DType dtype = DType::f32;
    for (const std::string& source : field.from) {
      const TransformedField* made = find(source, &field);
      dtype = made ? this->dtype(session, segment, *made) : own(session, segment, source).dtype;
      is_u8 &= dtype == DType::u8;
    }
    dtype = is_u8 ? DType::u8 : DType::f32;
    for (const auto& op : ops.at(field.name))
      dtype = op->keeps_bytes() ? op->casts_to().value_or(dtype) : DType::f32;
    return dtype;
  }
  const std::vector<Stretch>& pieces_for(const Session& session, const Segment& segment,
                                         bool across) const {
    const std::string key = fmt::format("{}/{}/{}", session.name, segment.name, across);
    auto& found = pieces[key];
    if (found.empty()) found = pieces_of(session, segment, across);
    return found;
  }
  const Stretch& piece_at(const Session& session, const Segment& segment, bool across,
                          uint64_t t) const {
    const auto& all = pieces_for(session, segment, across);
    return *(std::ranges::upper_bound(all, t, {}, &Stretch::begin) - 1);
  }

  // Rows of a source, made or the recording's own; any range within the segment.
  RowBlock source_rows(const Session& session, const Segment& segment, const std::string& name,
                       const TransformedField& of, uint64_t first, uint64_t count) const {
    if (const TransformedField* made = find(name, &of))
      return rows(session, segment, *made, made->ops.size(), first, count);
    auto& source = sources[fmt::format("{}/{}/{}", session.name, segment.name, name)];
    if (!source) source = std::make_unique<SourceRows>(own(session, segment, name));
    RowBlock block;
    block.resize(first, count, row_of(source->field));
    source->read(block);
    return block;
  }
  RowBlock joined(const Session& session, const Segment& segment, const TransformedField& field,
                  uint64_t first, uint64_t count) const {
    if (field.from.size() == 1)
      return source_rows(session, segment, field.from[0], field, first, count);
    RowBlock all;
    all.resize(first, count, row(session, segment, field, 0));
    const uint64_t wide = all.row.back(), lines = all.columns() / wide;
    uint64_t column = 0;
    for (const std::string& name : field.from) {
      const RowBlock one = source_rows(session, segment, name, field, first, count);
      const uint64_t own_wide = one.columns() / lines;
      for (uint64_t i = 0; i < count * lines; ++i)
        std::copy_n(one.values.data() + i * own_wide, own_wide,
                    all.values.data() + i * wide + column);
      column += own_wide;
    }
    return all;
  }
  // Rows of a field after its first `steps` ops; any range within the segment.
  RowBlock rows(const Session& session, const Segment& segment, const TransformedField& field,
                size_t steps, uint64_t first, uint64_t count) const {
    RowBlock all;
    all.resize(first, count, row(session, segment, field, steps));
    for (uint64_t t = first; t < first + count;) {
      const Stretch& piece = piece_at(session, segment, field.across_trials, t);
      const uint64_t end = std::min(piece.end, first + count);
      const RowBlock some = piece_rows(session, segment, field, steps, piece, t, end);
      std::copy(some.values.begin(), some.values.end(), all.at(t));
      t = end;
    }
    return all;
  }
  // The same within one piece: each op gets its halo, as far as the piece reaches.
  RowBlock piece_rows(const Session& session, const Segment& segment, const TransformedField& field,
                      size_t steps, const Stretch& piece, uint64_t begin, uint64_t end) const {
    const auto& all = ops.at(field.name);
    std::vector<std::pair<uint64_t, uint64_t>> ranges(steps + 1);  // before each op, and at the end
    ranges[steps] = {begin, end};
    for (size_t i = steps; i-- > 0;) {
      const auto [b, e] = ranges[i + 1];
      ranges[i] = {b - std::min(b - piece.begin, all[i]->rows_before()),
                   std::min(piece.end, e + all[i]->rows_after())};
    }
    RowBlock in =
        joined(session, segment, field, ranges[0].first, ranges[0].second - ranges[0].first);
    for (size_t i = 0; i < steps; ++i) {
      RowBlock out;
      out.resize(ranges[i + 1].first, ranges[i + 1].second - ranges[i + 1].first,
                 all[i]->out_row(in.row));
      static const OpStatistic kNone;
      all[i]->apply(
          in, out,
          all[i]->kind() == OpKind::whole_segment ? statistic(session, segment, field, i) : kNone);
      in = std::move(out);
    }
    return in;
  }

  // Which rows of a segment a statistic counts: u8 [T], empty for all.
  std::span<const uint8_t> split_parts(const Session& session, const Segment& segment,
                                       const TransformedField& field, const std::string& op,
                                       const Json& settings) const {
    if (settings.value("rows", "train") == "all") return {};
    const std::string name = settings.value("split", "");
    if (name.empty() && recording.splits().size() != 1)
      throw Error(
          "transform '{}': {} takes its statistic from training rows, but the recording has {} "
          "splits; name one (split: NAME), draw one with `lacuna split`, or say rows: all",
          field.name, op, recording.splits().size());
    // By its name: that compares its bytes with their checksum.
    const RecordingSplit& split = recording.split(name.empty() ? recording.splits()[0].name : name);
    const auto parts = split.of(session.name, segment.name);
    if (parts.empty())
      throw Error("transform '{}': split '{}' does not cover {}/{}; draw another", field.name,
                  split.name, session.name, segment.name);
    return parts;
  }
  // Returns how many rows it gave.
  uint64_t learn(const Session& session, const Segment& segment, const TransformedField& field,
                 size_t i, TransformOp::Learner& learner) const {
    uint64_t count = 0;
    const auto& [op, settings] = field.ops[i];
    const auto parts = split_parts(session, segment, field, op, settings);
    const uint64_t columns = row_columns(row(session, segment, field, i));
    const uint64_t at_once = std::max<uint64_t>(1, kBlockBytes / (4 * columns));
    for (uint64_t t = 0; t < segment.frames; t += at_once) {
      throw_if_stopped();
      const RowBlock block =
          rows(session, segment, field, i, t, std::min(at_once, segment.frames - t));
      for (uint64_t r = t; r < t + block.count; ++r)
        if (parts.empty() || parts[r] == uint8_t(Part::train)) {
          learner.add(block.at(r), columns);
          ++count;
        }
    }
    return count;
  }
  const OpStatistic& statistic(const Session& session, const Segment& segment,
                               const TransformedField& field, size_t i) const {
    const std::string over = field.ops[i].second.value("over", "segment");
    const std::string key =
        fmt::format("{}/{}/{}/{}", field.name, i, over == "recording" ? "" : session.name,
                    over == "segment" ? segment.name : "");
    const auto found = statistics.find(key);
    if (found != statistics.end()) return found->second;
    const auto learner = ops.at(field.name)[i]->learner();
    uint64_t count = 0;
    for (const Session& one : recording.sessions()) {
      if (over != "recording" && one.name != session.name) continue;
      for (const Segment& other : one.segments)
        if (over != "segment" || other.name == segment.name)
          count += learn(one, other, field, i, *learner);
    }
    if (count == 0 && field.ops[i].second.value("rows", "train") != "all")
      throw Error(
          "transform '{}': {} over {} takes its statistic from training rows of split '{}', and "
          "{}/{} has no training rows there; use over: session or recording, or rows: all",
          field.name, field.ops[i].first, over,
          field.ops[i].second.value("split", recording.splits()[0].name), session.name,
          segment.name);
    return statistics[key] = learner->finish();
  }
  static uint64_t row_columns(const Shape& row) {
    uint64_t product = 1;
    for (const uint64_t extent : row) product *= extent;
    return product;
  }
};

Transforms::Transforms(const Recording& recording, const Json& settings)
    : recording_(recording), settings_(settings) {
  if (!settings.is_object())
    throw Error("transforms are a map of new fields, not {}", settings.dump());
  for (const auto& [name, json] : settings.items()) {
    try {
      fields_.push_back(parse_field(name, json));
    } catch (const Json::exception&) {
      throw Error("transform '{}': {} is not what its settings look like", name, json.dump());
    } catch (const Error& error) {
      throw Error("transform '{}': {}", name, error.what());
    }
  }
  state_ = std::make_unique<State>(recording_, fields_);
  for (const TransformedField& field : fields_) {
    auto& ops = state_->ops[field.name];
    for (const auto& [name, json] : field.ops) {
      try {
        ops.push_back(make_transform_op(name, json));
      } catch (const Error& error) {
        throw Error("transform '{}': {}", field.name, error.what());
      }
    }
  }
}
Transforms::~Transforms() = default;

bool Transforms::has(const std::string& name) const { return state_->ops.contains(name); }

namespace {
const TransformedField& made_field(const std::vector<TransformedField>& fields,
                                   const std::string& name) {
  const auto at = std::ranges::find(fields, name, &TransformedField::name);
  LACUNA_ASSERT(at != fields.end());
  return *at;
}
}  // namespace

DType Transforms::dtype(const Session& session, const Segment& segment,
                        const std::string& name) const {
  return state_->dtype(session, segment, made_field(fields_, name));
}

Shape Transforms::row_shape(const Session& session, const Segment& segment,
                            const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  return state_->row(session, segment, field, field.ops.size());
}

FieldRole Transforms::role(const Segment& segment, const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  if (field.role) return *field.role;
  const TransformedField* made = state_->find(field.from[0], &field);
  if (made) return role(segment, made->name);
  const Field* own = segment.find(field.from[0]);
  return own ? own->role : FieldRole::other;
}

OpKind Transforms::kind(const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  OpKind kind = field.python.empty() ? OpKind::pointwise : OpKind::whole_segment;
  for (const auto& op : state_->ops.at(name)) kind = std::max(kind, op->kind());
  for (const std::string& source : field.from)
    if (const TransformedField* made = state_->find(source, &field))
      kind = std::max(kind, this->kind(made->name));
  return kind;
}

std::vector<std::string> Transforms::losses(const std::string& name) const {
  std::vector<std::string> words;
  for (const auto& op : state_->ops.at(name))
    if (!op->loss().empty()) words.push_back(fmt::format("{}: {}", name, op->loss()));
  return words;
}

void Transforms::run(const Session& session, const Segment& segment, const std::string& name,
                     const Take& take) const {
  const DType dtype = this->dtype(session, segment, name);
  const uint64_t columns = State::row_columns(row_shape(session, segment, name));
  const uint64_t at_once = std::max<uint64_t>(1, kBlockBytes / (4 * columns));
  std::vector<std::byte> bytes;
  for (uint64_t t = 0; t < segment.frames; t += at_once) {
    throw_if_stopped();
    bytes.clear();
    append_as(dtype, rows(session, segment, name, t, std::min(at_once, segment.frames - t)), bytes);
    take(bytes);
  }
}

RowBlock Transforms::rows(const Session& session, const Segment& segment, const std::string& name,
                          uint64_t first, uint64_t count) const {
  const TransformedField& field = made_field(fields_, name);
  if (!field.python.empty())
    throw Error("transform '{}' calls Python: it runs once a segment, with `lacuna transform`",
                name);
  LACUNA_ASSERT(first + count <= segment.frames);
  const std::lock_guard lock(state_->mutex);
  return state_->rows(session, segment, field, field.ops.size(), first, count);
}

std::vector<uint8_t> Transforms::nan_rows(const Session& session, const Segment& segment,
                                          const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  std::vector<uint8_t> in_sources(segment.frames, 0);
  bool is_any = false;
  for (const std::string& source : field.from) {
    const TransformedField* made = state_->find(source, &field);
    const Field* own = made ? nullptr : &state_->own(session, segment, source);
    if (own && own->nan_rows == 0) continue;
    const std::vector<uint8_t> of_made =
        made ? nan_rows(session, segment, made->name) : std::vector<uint8_t>();
    if (made && of_made.empty()) continue;
    const Array of_own = own ? read_nan_rows(*own) : Array();
    const auto flags = own ? of_own.as<uint8_t>() : std::span<const uint8_t>(of_made);
    for (uint64_t t = 0; t < segment.frames; ++t) in_sources[t] |= flags[t];
    is_any = true;
  }
  if (!is_any) return {};
  int64_t before = 0, after = 0;
  for (const auto& op : state_->ops.at(name)) {
    before += int64_t(op->rows_before());
    after += int64_t(op->rows_after());
  }
  std::vector<uint8_t> result(segment.frames, 0);
  int64_t looked_at = -1;  // rows up to this one
  for (int64_t r = 0; r < int64_t(segment.frames); ++r) {
    if (!in_sources[size_t(r)]) continue;
    const int64_t end = std::min(int64_t(segment.frames), r + before + 1);
    const int64_t begin = std::max({int64_t(0), r - after, looked_at + 1});
    if (begin >= end) continue;
    const RowBlock block = rows(session, segment, name, uint64_t(begin), uint64_t(end - begin));
    for (int64_t t = begin; t < end; ++t) {
      const float* const row = block.at(uint64_t(t));
      result[size_t(t)] = uint8_t(!std::all_of(row, row + block.columns(),
                                               [](float value) { return std::isfinite(value); }));
    }
    looked_at = end - 1;
  }
  return result;
}

std::vector<uint8_t> Transforms::valid_rows(const Session& session, const Segment& segment,
                                            const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  std::vector<uint8_t> in_sources(segment.frames, 1);
  for (const std::string& source : field.from) {
    std::vector<uint8_t> flags;
    if (const TransformedField* made = state_->find(source, &field))
      flags = valid_rows(session, segment, made->name);
    else if (const Field* own = segment.find(source + "_valid");
             own && own->role == FieldRole::validity && own->shape.size() == 1)
      flags = read_flags(*own);
    for (uint64_t t = 0; t < flags.size(); ++t) in_sources[t] &= flags[t];
  }
  if (std::ranges::find(in_sources, uint8_t(0)) == in_sources.end()) return {};
  uint64_t before = 0, after = 0;
  for (const auto& op : state_->ops.at(name)) {
    before += op->rows_before();
    after += op->rows_after();
  }
  const std::lock_guard lock(state_->mutex);
  std::vector<uint8_t> result = in_sources;
  for (uint64_t r = 0; r < segment.frames; ++r) {
    if (in_sources[r]) continue;
    const Stretch& piece = state_->piece_at(session, segment, field.across_trials, r);
    const uint64_t begin = r - std::min(r - piece.begin, after);
    const uint64_t end = std::min(piece.end, r + before + 1);
    std::fill(result.begin() + int64_t(begin), result.begin() + int64_t(end), uint8_t(0));
  }
  return result;
}

uint64_t Transforms::source_bytes(const Session& session, const Segment& segment,
                                  const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  uint64_t total = 0;
  for (const std::string& source : field.from) {
    const TransformedField* made = state_->find(source, &field);
    total += made ? source_bytes(session, segment, made->name)
                  : state_->own(session, segment, source).bytes();
  }
  return total;
}

void Transforms::warm(const Session& session, const Segment& segment,
                      const std::string& name) const {
  rows(session, segment, name, 0, 1);
}

RowBlock Transforms::warm_rows(const Session& session, const Segment& segment,
                               const std::string& name, uint64_t first, uint64_t count) const {
  const TransformedField& field = made_field(fields_, name);
  return state_->rows(session, segment, field, field.ops.size(), first, count);
}

namespace {
// What a statistic depends on beside the session's own fields.
void add_statistic(const Recording& source, const Session& session, const Json& op,
                   Hasher& hasher) {
  const bool is_over_all = op.value("over", "segment") == "recording";
  if (is_over_all) hasher.add(fmt::format("recording {}\n", hex(source.fingerprint().value())));
  if (op.value("rows", "train") == "all") return;
  const std::string name = op.value("split", "");
  if (name.empty() && source.splits().size() != 1) return;  // refused when it is taken
  const RecordingSplit& split = source.split(name.empty() ? source.splits()[0].name : name);
  for (const RecordingSplit::Covered& covered : split.segments)
    if (is_over_all || covered.session == session.name)
      hasher.add(
          fmt::format("{}/{} {}\n", covered.session, covered.segment,
                      hex(hash64(std::as_bytes(split.of(covered.session, covered.segment))))));
}
}  // namespace

uint64_t transform_key(const Recording& source, const std::string& session, const Json& settings,
                       const std::vector<TransformedField>& fields) {
  Hasher hasher;
  const FingerprintPart* part = source.fingerprint().find("session " + session);
  LACUNA_ASSERT(part);
  hasher.add(fmt::format("{} {} {}", hex(part->hash), settings.dump(), kTransformsVersion));
  for (const TransformedField& field : fields) {
    for (const auto& [name, op] : field.ops)
      if (make_transform_op(name, op)->kind() == OpKind::whole_segment)
        add_statistic(source, source.session(session), op, hasher);
    const fs::path file = field.python.substr(0, field.python.rfind(':'));
    if (!field.python.empty() && fs::is_regular_file(file))
      hasher.add(fmt::format("python {}\n", hex(hash_file(file))));
  }
  return hasher.value();
}

}  // namespace lacuna
