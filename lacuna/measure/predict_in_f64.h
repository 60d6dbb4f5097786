// What given weights predict on a rung when everything is computed in f64: to compare with other
// programs, whose last bits an f32 would hide.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/train/session.h"

namespace lacuna {

// Standardised predictions [S, L] of samples of the config's screen, in their order. checkpoint:
// whose weights (f32, widened) are taken. Throws Error as open_session() and load_weights() do.
std::vector<double> predict_in_f64(const Config& config, const fs::path& checkpoint,
                                   std::vector<uint32_t> samples, const Note& note);

}  // namespace lacuna
