// The split that a run was begun with, kept in its directory: a split that was drawn later under
// the same name may hold out samples that the run was trained on.
//
//   RUN/split.safetensors   array "parts" [S] u8: the part of every sample (Part)
//                           metadata "lacuna" (JSON): the split's name, how it was made, and a hash
//                           of the genes that these S samples remove
//
// Samples are known by their number: a screen is the run's where its first S samples remove the
// genes that they removed then. More may have come behind them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lacuna/run/run.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

// Replaces what the run kept before, whole or not at all.
void keep_split(const Run& run, const Screen& screen, const Split& split);
bool keeps_split(const Run& run);  // false: an older version made it

// The split as it was, of the screen's first S samples. Nothing where the run keeps none, or the
// screen begins with other samples. Throws Error for a damaged file.
std::optional<Split> kept_split(const Run& run, const Screen& screen);
// The same with the rest of the screen's samples unused.
Split over_all_samples(Split split, const Screen& screen);

// The command that made it, in quotes, or whatever else is known of a split.
std::string how_made(const Split& split);
// How many samples of `then` are in another part `now`, which has as many or more.
uint64_t count_moved(const Split& then, const Split& now);

// Whether a run may go on: all samples that it had are there, each in its part; there may be more.
// Throws Error that says what has changed, and the remedy. A run that keeps no split goes on.
void check_kept_split(const Run& run, const Screen& screen, const Split& now);

}  // namespace lacuna
