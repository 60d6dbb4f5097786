#include "lacuna/recording/transforms/transform_state.h"

#include <algorithm>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/transforms/statistic_memory.h"
#include "lacuna/screen/samples.h"

namespace lacuna {
namespace {

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

Shape row_of(const Shape& shape) { return Shape(shape.begin() + 1, shape.end()); }

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

// A field of the recording as a function of the user's sees it: bits as bytes, bf16 as f32, all
// else as stored.
Array python_array(const Field& field) {
  const Array stored = read_checked(field);
  if (!field.packed && field.dtype != DType::bf16) return stored;
  std::vector<float> row(field.columns());
  std::vector<uint8_t> bytes;
  std::vector<float> floats;
  for (uint64_t t = 0; t < field.rows(); ++t) {
    read_row(field, stored.bytes().data() + t * field.row_bytes(), row.data());
    if (field.packed)
      bytes.insert(bytes.end(), row.begin(), row.end());
    else
      floats.insert(floats.end(), row.begin(), row.end());
  }
  return field.packed ? Array::from(std::move(bytes), field.shape)
                      : Array::from(std::move(floats), field.shape);
}

}  // namespace

void SourceRows::read(RowBlock& out) {
  const std::byte* const bytes = rows.bytes().data();
  checked.check_mapped(out.first, out.count, bytes);
  for (uint64_t t = out.first; t < out.first + out.count; ++t)
    read_row(field, bytes + t * field.row_bytes(), out.at(t));
}

uint64_t Transforms::State::row_columns(const Shape& row) {
  uint64_t product = 1;
  for (const uint64_t extent : row) product *= extent;
  return product;
}

const TransformedField* Transforms::State::find(const std::string& name,
                                                const TransformedField* before) const {
  const TransformedField* found = nullptr;
  for (const TransformedField& field : fields) {
    if (&field == before) break;
    if (field.name == name) found = &field;
  }
  return found;
}

const Field& Transforms::State::own(const Session& session, const Segment& segment,
                                    const std::string& name) const {
  if (const Field* field = segment.find(name)) return *field;
  std::vector<std::string> names;
  for (const Field& field : segment.fields) names.push_back(field.name);
  throw Error("{}/{}: no field '{}' to transform; there is {}", session.name, segment.name, name,
              fmt::join(names, ", "));
}

size_t Transforms::State::after_python(const TransformedField& field, size_t count) {
  while (count > 0 && field.ops[count - 1].first != kPythonOp) --count;
  return count;
}

Shape Transforms::State::row(const Session& session, const Segment& segment,
                             const TransformedField& field, size_t count) const {
  const size_t known = after_python(field, count);
  Shape shape;
  if (known > 0) {
    shape = row_of(python_result(session, segment, field, known - 1).shape());
  } else {
    std::vector<Shape> rows;
    for (const std::string& source : field.from) {
      const TransformedField* made = find(source, &field);
      rows.push_back(made ? row(session, segment, *made, made->ops.size())
                          : row_of(own(session, segment, source).shape));
    }
    shape = joined_row(rows, field.name);
  }
  for (size_t i = known; i < count; ++i) shape = ops.at(field.name)[i]->out_row(shape);
  return shape;
}

DType Transforms::State::dtype(const Session& session, const Segment& segment,
                               const TransformedField& field, size_t count) const {
  const size_t known = after_python(field, count);
  DType dtype = DType::u8;
  if (known > 0) {
    dtype = python_result(session, segment, field, known - 1).dtype();
  } else {
    for (const std::string& source : field.from) {
      const TransformedField* made = find(source, &field);
      if ((made ? this->dtype(session, segment, *made, made->ops.size())
                : own(session, segment, source).dtype) != DType::u8)
        dtype = DType::f32;
    }
  }
  for (size_t i = known; i < count; ++i) {
    const TransformOp& op = *ops.at(field.name)[i];
    dtype = op.keeps_bytes() ? op.casts_to().value_or(dtype) : DType::f32;
  }
  return dtype;
}

const std::vector<Stretch>& Transforms::State::pieces_for(const Session& session,
                                                          const Segment& segment,
                                                          bool across) const {
  const std::string key = fmt::format("{}/{}/{}", session.name, segment.name, across);
  auto& found = pieces[key];
  if (found.empty()) found = pieces_of(session, segment, across);
  return found;
}

const Stretch& Transforms::State::piece_at(const Session& session, const Segment& segment,
                                           bool across, uint64_t t) const {
  const auto& all = pieces_for(session, segment, across);
  return *(std::ranges::upper_bound(all, t, {}, &Stretch::begin) - 1);
}

// Rows of a source, made or the recording's own; any range within the segment.
RowBlock Transforms::State::source_rows(const Session& session, const Segment& segment,
                                        const std::string& name, const TransformedField& of,
                                        uint64_t first, uint64_t count) const {
  if (const TransformedField* made = find(name, &of))
    return rows(session, segment, *made, made->ops.size(), first, count);
  auto& source = sources[fmt::format("{}/{}/{}", session.name, segment.name, name)];
  if (!source) source = std::make_unique<SourceRows>(own(session, segment, name));
  RowBlock block;
  block.resize(first, count, row_of(source->field.shape));
  source->read(block);
  return block;
}

RowBlock Transforms::State::joined(const Session& session, const Segment& segment,
                                   const TransformedField& field, uint64_t first,
                                   uint64_t count) const {
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

RowBlock Transforms::State::rows(const Session& session, const Segment& segment,
                                 const TransformedField& field, size_t steps, uint64_t first,
                                 uint64_t count) const {
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

// The same within one piece: each op gets its halo, as far as the piece reaches. What Python made
// is read; the ops before it are not taken again.
RowBlock Transforms::State::piece_rows(const Session& session, const Segment& segment,
                                       const TransformedField& field, size_t steps,
                                       const Stretch& piece, uint64_t begin, uint64_t end) const {
  const auto& all = ops.at(field.name);
  const size_t known = after_python(field, steps);
  std::vector<std::pair<uint64_t, uint64_t>> ranges(steps + 1);  // before each op, and at the end
  ranges[steps] = {begin, end};
  for (size_t i = steps; i-- > known;) {
    const auto [b, e] = ranges[i + 1];
    ranges[i] = {b - std::min(b - piece.begin, all[i]->rows_before()),
                 std::min(piece.end, e + all[i]->rows_after())};
  }
  const uint64_t first = ranges[known].first, count = ranges[known].second - first;
  RowBlock in;
  if (known > 0) {
    const Array made = python_result(session, segment, field, known - 1);
    in.resize(first, count, row_of(made.shape()));
    with_type(made.dtype(), [&](auto type) {
      const auto values = made.as<decltype(type)>().subspan(first * in.columns());
      for (size_t i = 0; i < in.values.size(); ++i) in.values[i] = float(values[i]);
    });
  } else {
    in = joined(session, segment, field, first, count);
  }
  for (size_t i = known; i < steps; ++i) {
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

// ---- Python
Array Transforms::State::python_result(const Session& session, const Segment& segment,
                                       const TransformedField& field, size_t op) const {
  if (!python)
    throw Error(
        "transform '{}' calls Python, which runs once over a whole segment: `lacuna prepare "
        "CONFIG` "
        "or `lacuna transform` writes what it gives",
        field.name);
  const std::lock_guard lock(mutex);
  const std::string here = session.name + "/" + segment.name + "/";
  const std::string key = fmt::format("{}{}/{}", here, field.name, op);
  if (const auto found = python_results.find(key); found != python_results.end())
    return found->second;
  const auto call = field.ops[op].second.get<std::string>();
  const Array result =
      python(field, call, session, segment, python_sources(session, segment, field, op));
  if (result.shape().empty() || result.shape()[0] != segment.frames)
    throw Error("transform '{}': {} gave {} rows for the {} of {}/{}; return one for each",
                field.name, call, result.shape().empty() ? 0 : result.shape()[0], segment.frames,
                session.name, segment.name);
  if (result.dtype() != DType::u8 && result.dtype() != DType::f32)
    throw Error("transform '{}': {} gave {}; return uint8 or float32", field.name, call,
                name(result.dtype()));
  // Those of other segments are files as large as these, and not needed again.
  std::erase_if(python_results, [&](const auto& one) { return !one.first.starts_with(here); });
  return python_results[key] = result;
}

// The first op of a field gets its sources one by one, a later one what the op before it gave.
std::vector<Array> Transforms::State::python_sources(const Session& session, const Segment& segment,
                                                     const TransformedField& field,
                                                     size_t op) const {
  if (op > 0) return {all_rows(session, segment, field, op)};
  std::vector<Array> arrays;
  for (const std::string& name : field.from) {
    const TransformedField* made = find(name, &field);
    arrays.push_back(made ? all_rows(session, segment, *made, made->ops.size())
                          : python_array(own(session, segment, name)));
  }
  return arrays;
}

Array Transforms::State::all_rows(const Session& session, const Segment& segment,
                                  const TransformedField& field, size_t steps) const {
  if (steps > 0 && field.ops[steps - 1].first == kPythonOp)
    return python_result(session, segment, field, steps - 1);
  RowBlock block = rows(session, segment, field, steps, 0, segment.frames);
  Shape shape = block.row;
  shape.insert(shape.begin(), segment.frames);
  if (dtype(session, segment, field, steps) == DType::u8)
    return Array::from(std::vector<uint8_t>(block.values.begin(), block.values.end()),
                       std::move(shape));
  return Array::from(std::move(block.values), std::move(shape));
}

// ---- statistics
// Which rows of a segment a statistic counts: u8 [T], empty for all.
std::span<const uint8_t> Transforms::State::split_parts(const Session& session,
                                                        const Segment& segment,
                                                        const TransformedField& field,
                                                        const std::string& op,
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
uint64_t Transforms::State::learn(const Session& session, const Segment& segment,
                                  const TransformedField& field, size_t i,
                                  TransformOp::Learner& learner) const {
  uint64_t count = 0;
  const auto& [op, settings] = field.ops[i];
  const auto parts = split_parts(session, segment, field, op, settings);
  const uint64_t columns = row_columns(row(session, segment, field, i));
  const uint64_t at_once = std::max<uint64_t>(1, kTransformBlockBytes / (4 * columns));
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

OpStatistic Transforms::State::learn_statistic(const Session& session, const Segment& segment,
                                               const TransformedField& field, size_t i) const {
  const auto& [op, settings] = field.ops[i];
  const std::string over = settings.value("over", "segment");
  const auto learner = ops.at(field.name)[i]->learner(row(session, segment, field, i));
  uint64_t count = 0;
  for (const Session& one : recording.sessions()) {
    if (over != "recording" && one.name != session.name) continue;
    for (const Segment& other : one.segments)
      if (over != "segment" || other.name == segment.name)
        count += learn(one, other, field, i, *learner);
  }
  if (count == 0 && settings.value("rows", "train") != "all")
    throw Error(
        "transform '{}': {} over {} takes its statistic from training rows of split '{}', and "
        "{}/{} has no training rows there; use over: session or recording, or rows: all",
        field.name, op, over, settings.value("split", recording.splits()[0].name), session.name,
        segment.name);
  return learner->finish();
}

const OpStatistic& Transforms::State::statistic(const Session& session, const Segment& segment,
                                                const TransformedField& field, size_t i) const {
  const Json& settings = field.ops[i].second;
  const std::string over = settings.value("over", "segment");
  const std::string key =
      fmt::format("{}/{}/{}/{}", field.name, i, over == "recording" ? "" : session.name,
                  over == "segment" ? segment.name : "");
  const auto found = statistics.find(key);
  if (found != statistics.end()) return found->second;
  const std::optional<uint64_t> remembered_as =
      statistic_key(recording, session, segment, fields, field, i);
  if (remembered_as)
    if (auto known = recall_statistic(recording.path(), *remembered_as))
      return statistics[key] = std::move(*known);
  OpStatistic learned = learn_statistic(session, segment, field, i);
  if (remembered_as) remember_statistic(recording.path(), *remembered_as, learned);
  return statistics[key] = std::move(learned);
}

}  // namespace lacuna
