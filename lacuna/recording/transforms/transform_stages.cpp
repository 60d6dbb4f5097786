#include "lacuna/recording/transforms/transform_stages.h"

#include <algorithm>

namespace lacuna {
namespace {

// The number of the field of this name among the first `count`; none: the recording's own.
std::optional<size_t> made_above(const std::vector<TransformedField>& fields, size_t count,
                                 const std::string& name) {
  for (size_t i = 0; i < count; ++i)
    if (fields[i].name == name) return i;
  return {};
}

// One round of the rules; true: another field has become one that is written.
bool spread(const std::vector<TransformedField>& fields, std::vector<bool>& is_once) {
  const std::vector<bool> before = is_once;
  for (size_t i = 0; i < fields.size(); ++i)
    for (const std::string& source : fields[i].from) {
      const auto made = made_above(fields, i, source);
      if (is_once[i] && made) is_once[*made] = true;
      // The recording's own field is meant, and a written one of this name would hide it.
      const auto hides = made_above(fields, fields.size(), source);
      if (!is_once[i] && !made && hides && is_once[*hides]) is_once[i] = true;
    }
  return is_once != before;
}

// What every rung does to bytes.
bool is_of_the_rung(const std::string& op, const Json& settings) {
  if (op == "cast") return settings.value("dtype", "") == "f32";
  return op == "normalise" && settings.value("mean", 127.0) == 127 &&
         settings.value("scale", 255.0) == 255;
}

bool is_bytes_everywhere(const Recording& recording, const std::string& name) {
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments)
      if (const Field* field = segment.find(name); field && field->dtype != DType::u8) return false;
  return true;
}

}  // namespace

std::optional<Json> late_frame_ops(const Recording& recording, const Json& settings,
                                   const std::string& name, bool only_crops) {
  const Transforms transforms(recording, settings);
  const TransformedField* frames = nullptr;
  for (const TransformedField& field : transforms.fields()) {
    if (field.name == name)
      frames = &field;
    else if (frames && std::ranges::find(field.from, name) != field.from.end())
      return {};
  }
  if (!frames || frames->from != std::vector{name} || !is_bytes_everywhere(recording, name))
    return {};
  auto ops = frames->ops;
  while (!ops.empty() && is_of_the_rung(ops.back().first, ops.back().second)) ops.pop_back();
  bool is_bytes = true;
  Json late = Json::array();
  for (const auto& [op, values] : ops) {
    const auto made = make_transform_op(op, values);
    if (made->kind() != OpKind::pointwise || (only_crops && op != "crop")) return {};
    is_bytes = made->keeps_bytes() &&
               made->casts_to().value_or(is_bytes ? DType::u8 : DType::f32) == DType::u8;
    late.push_back({{op, values}});
  }
  if (!is_bytes) return {};
  return late;
}

TransformStages stage_transforms(const Recording& recording, const Json& settings,
                                 const std::set<std::string>& stored) {
  const Transforms transforms(recording, settings);
  const std::vector<TransformedField>& fields = transforms.fields();
  std::vector<bool> is_once;
  for (const TransformedField& field : fields)
    is_once.push_back(field.calls_python() || stored.contains(field.name));
  while (spread(fields, is_once)) continue;
  // A late field that is made from what Python gave reads that as a field of the derived recording.
  TransformStages stages;
  for (size_t i = 0; i < fields.size(); ++i)
    (is_once[i] ? stages.once : stages.late)[fields[i].name] = settings.at(fields[i].name);
  return stages;
}

}  // namespace lacuna
