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

}  // namespace

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
