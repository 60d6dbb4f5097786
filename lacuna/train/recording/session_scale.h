// What the training part says about the numbers of a session: mean counts, and how to standardise
// inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/recording/window_fields.h"
#include "lacuna/recording/windows.h"

namespace lacuna {

struct SessionScale {
  std::vector<double> mean_counts;  // [units] a row: the rate that models are compared with
  std::vector<double> input_mean, input_sd;  // [inputs] behaviour is standardised by them
};

// Of each of these sessions, numbers in the recording. Long ones are sampled: see the source.
// fields: of `training`, windows of one target row.
std::vector<SessionScale> find_scales(const WindowFields& fields, const Windows& training,
                                      const std::vector<uint32_t>& sessions);

}  // namespace lacuna
