#include "lacuna/recording/import/field_names.h"

#include <algorithm>
#include <array>
#include <string>

namespace lacuna {
namespace {

struct KnownName {
  std::string_view name;
  FieldRole role;
};
constexpr std::array<KnownName, 29> kKnownNames = {{
    {"stim", FieldRole::stimulus},
    {"stimulus", FieldRole::stimulus},
    {"movie", FieldRole::stimulus},
    {"frames", FieldRole::stimulus},
    {"robs", FieldRole::counts},
    {"counts", FieldRole::counts},
    {"spikes", FieldRole::counts},
    {"spike_counts", FieldRole::counts},
    {"behavior", FieldRole::behaviour},
    {"behaviour", FieldRole::behaviour},
    {"eyepos", FieldRole::behaviour},
    {"eye_position", FieldRole::behaviour},
    {"pupil", FieldRole::behaviour},
    {"dfs", FieldRole::validity},
    {"validity", FieldRole::validity},
    {"valid", FieldRole::validity},
    {"trial_inds", FieldRole::trial},
    {"trial_ids", FieldRole::trial},
    {"trial", FieldRole::trial},
    {"trials", FieldRole::trial},
    {"psth_inds", FieldRole::stimulus_id},
    {"stimulus_ids", FieldRole::stimulus_id},
    {"stimulus_id", FieldRole::stimulus_id},
    {"stim_ids", FieldRole::stimulus_id},
    {"t_bins", FieldRole::time},
    {"time", FieldRole::time},
    {"times", FieldRole::time},
    {"timestamps", FieldRole::time},
    {"time_stamps", FieldRole::time},
}};

}  // namespace

FieldRole role_of_name(std::string_view name, const Shape& shape) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  for (const KnownName& known : kKnownNames) {
    if (known.name != lower) continue;
    if (known.role == FieldRole::stimulus && shape.size() < 2) return FieldRole::other;
    if (known.role == FieldRole::counts && shape.size() != 2) return FieldRole::other;
    return known.role;
  }
  return FieldRole::other;
}

}  // namespace lacuna
