// What the training part says about the numbers of a session: mean counts, and how to standardise
// inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/recording/window_fields.h"
#include "lacuna/recording/windows.h"
#include "lacuna/run/recording/session_start.h"

namespace lacuna {

// Of each of these sessions, numbers in the recording. Long ones are sampled: see the source.
// fields: of `training`, windows of one target row.
std::vector<SessionScale> find_scales(const WindowFields& fields, const Windows& training,
                                      const std::vector<uint32_t>& sessions);

}  // namespace lacuna
