// What a training leaves behind when a loss is not finite.
#pragma once

#include <cstdint>
#include <span>

#include "lacuna/train/session.h"

namespace lacuna {

// Writes bad_batch.json into the run's directory ({"step", "epoch", "samples": numbers, "removed":
// names of the genes of each}) and throws the Error that names them. epoch counts from 0.
[[noreturn]] void throw_bad_batch(const Session& session, const fs::path& run, uint64_t step,
                                  uint64_t epoch, std::span<const uint64_t> samples);

}  // namespace lacuna
