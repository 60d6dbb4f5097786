#include "lacuna/recording/transforms/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/transforms/statistic_memory.h"
#include "lacuna/recording/transforms/transform_state.h"

namespace lacuna {
namespace {

std::pair<std::string, Json> parse_op(const Json& op) {
  if (op.is_string()) return {op.get<std::string>(), Json::object()};
  if (!op.is_object() || op.size() != 1)
    throw Error("an op is a name, or a name with its settings, not {}", op.dump());
  return {op.begin().key(), op.begin().value()};
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
    else if (key == "ops")
      for (const Json& op : value) field.ops.push_back(parse_op(op));
    else if (key == kPythonOp)
      field.ops.push_back({kPythonOp, value});
    else
      throw Error("there is no '{}'; there is from, ops, role, across_trials, python", key);
  }
  if (field.from.empty()) throw Error("`from` names no field");
  if (json.contains(kPythonOp) && json.contains("ops"))
    throw Error(
        "`python` and `ops` are both given, and their order is not; write it among the ops, as "
        "{{python: FILE.py:FUNCTION}}");
  return field;
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

bool TransformedField::calls_python() const {
  return std::ranges::find(ops, kPythonOp, &std::pair<std::string, Json>::first) != ops.end();
}

Transforms::Transforms(const Recording& recording, const Json& settings, PythonCall python)
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
  state_ = std::make_unique<State>(recording_, fields_, std::move(python));
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
  const TransformedField& field = made_field(fields_, name);
  return state_->dtype(session, segment, field, field.ops.size());
}

Shape Transforms::row_shape(const Session& session, const Segment& segment,
                            const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  return state_->row(session, segment, field, field.ops.size());
}

void Transforms::check_rows(const Session& session, const Segment& segment,
                            const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  for (const std::string& source : field.from) {
    const TransformedField* made = state_->find(source, &field);
    if (made && needs_python(*made)) return;
    if (!made) state_->own(session, segment, source);
  }
  if (!field.ops.empty() && field.ops[0].first == kPythonOp) return;  // takes them one by one
  const auto first = std::ranges::find(field.ops, kPythonOp, &std::pair<std::string, Json>::first);
  state_->row(session, segment, field, size_t(first - field.ops.begin()));
}

bool Transforms::needs_python(const TransformedField& field) const {
  if (field.calls_python()) return true;
  return std::ranges::any_of(field.from, [&](const std::string& source) {
    const TransformedField* made = state_->find(source, &field);
    return made && needs_python(*made);
  });
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
  OpKind kind = OpKind::pointwise;
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
  const uint64_t at_once = std::max<uint64_t>(1, kTransformBlockBytes / (4 * columns));
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

uint64_t Transforms::likely_bytes(const Session& session, const Segment& segment,
                                  const std::string& name) const {
  const TransformedField& field = made_field(fields_, name);
  if (!needs_python(field))
    return segment.frames * State::row_columns(row_shape(session, segment, name)) *
           item_size(dtype(session, segment, name));
  uint64_t total = 0;
  for (const std::string& source : field.from) {
    const TransformedField* made = state_->find(source, &field);
    total += made
                 ? likely_bytes(session, segment, made->name)
                 : segment.frames * state_->own(session, segment, source).columns() * sizeof(float);
  }
  return total;
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

uint64_t transform_key(const Recording& source, const std::string& session, const Json& settings,
                       const std::vector<TransformedField>& fields) {
  Hasher hasher;
  const FingerprintPart* part = source.fingerprint().find("session " + session);
  LACUNA_ASSERT(part);
  hasher.add(fmt::format("{} {} {}", hex(part->hash), settings.dump(), kTransformsVersion));
  for (const TransformedField& field : fields)
    for (const auto& [name, op] : field.ops) {
      add_python_file(name, op, hasher);
      if (name != kPythonOp && make_transform_op(name, op)->kind() == OpKind::whole_segment)
        add_statistic_rows(source, source.session(session), op, hasher);
    }
  return hasher.value();
}

}  // namespace lacuna
