// What profile.json and ladder.json say of the config and the screen that they were measured on,
// and in what that differs from the run in whose folder they lie.
#pragma once

#include <string>
#include <vector>

#include "lacuna/run/run_contents.h"

namespace lacuna::report {

// Sentences for a reader: what differs, and what cannot be said because the file does not tell.
// Empty where all is the run's own. The screen's place is no difference, only what it holds.
std::vector<std::string> differences(const RunContents& run, const StepProfile& profile);
std::vector<std::string> differences(const RunContents& run, const Ladder& ladder);

// The parts of the run's fingerprint that another one does not have. The edges of a shuffled graph
// are the run's own.
std::vector<std::string> differing_parts(const RunContents& run, const Fingerprint& other);

}  // namespace lacuna::report
