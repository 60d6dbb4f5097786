// What a field is by its name, as labs name theirs; --role says otherwise.
#pragma once

#include <string_view>

#include "lacuna/recording/recording.h"

namespace lacuna {

// stim, robs, behavior, dfs, trial_inds, psth_inds, t_bins and their usual other names; `other` for
// the rest. A stimulus has at least two dimensions, counts have two.
FieldRole role_of_name(std::string_view name, const Shape& shape);

}  // namespace lacuna
