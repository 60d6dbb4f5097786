// What profile.json and ladder.json say of the config and the screen that they were measured on,
// and in what that differs from the run in whose folder they lie.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lacuna/report/run_files.h"

namespace lacuna::report {

// The settings of a config as a run keeps it, by their full names: "train.lr" -> "1e-3". A list
// reads "[a, b]". Only what a run writes is understood: a setting a line, blocks by indentation,
// comments on lines of their own.
std::map<std::string, std::string> settings_of(const std::string& config);

// Sentences for a reader: what differs, and what cannot be said because the file does not tell.
// Empty where all is the run's own. The screen's place is no difference, only what it holds.
std::vector<std::string> differences(const Run& run, const Profile& profile);
std::vector<std::string> differences(const Run& run, const Ladder& ladder);

// The parts of the run's fingerprint that another one does not have. The edges of a shuffled graph
// are the run's own.
std::vector<std::string> differing_parts(const Run& run, const Fingerprint& other);

}  // namespace lacuna::report
