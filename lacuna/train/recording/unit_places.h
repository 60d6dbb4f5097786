// Where the fields of a session's units lie, found before the first step: a Gaussian readout that
// starts elsewhere hardly feels where to go.
//
// A unit's place is where its counts covary most with the pixels of the window. The covariance is
// sharpened by a Laplacian, since neighbouring pixels of most movies are alike (amplitudes of
// 1 / frequency). Windows overlap, so it is taken of a few stretches of consecutive windows, evenly
// spread: 9,000 windows of 33 x 51 x 51 are read as 26 MB, where as many single ones would be 770.
// Frames are averaged to at most 32 pixels a side, and lags to at most 12: a place need not be
// known any better.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/ladder/frames.h"
#include "lacuna/recording/window_fields.h"
#include "lacuna/recording/windows.h"

namespace lacuna {

// Consecutive windows of one run, by number.
struct WindowStretch {
  uint64_t first = 0, count = 0;
};
// Up to `most` stretches of up to `length` windows of a session, evenly spread, in order; none
// overlap. All of its windows where there are no more than that.
std::vector<WindowStretch> spread_stretches(const Windows& windows, uint32_t session, uint64_t most,
                                            uint64_t length);

// [units, 2], y and x from -1 to 1. training: windows of one target row, with `fields` of them.
// mean_counts: [units] of the session. On the CPU, whatever the model computes on: the same
// numbers on every machine.
std::vector<float> find_places(const Frames& frames, const WindowFields& fields,
                               const Windows& training, uint32_t session,
                               std::span<const double> mean_counts);

}  // namespace lacuna
