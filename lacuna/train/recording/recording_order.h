// The order in which a training draws windows, as the keys `order.*` of its config ask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/load/session_order.h"
#include "lacuna/train/recording/recording_session.h"

namespace lacuna {

// Windows of each session of a recording, [sessions + 1].
std::vector<uint64_t> first_windows(const Windows& windows);

// How often each session of the recording is drawn, [sessions], in any unit.
// Throws Error for a name that is neither a session nor a subject.
std::vector<double> session_shares(const RecordingOptions& options, const Windows& training);

SessionOrder training_order(const RecordingSession& session);

}  // namespace lacuna
