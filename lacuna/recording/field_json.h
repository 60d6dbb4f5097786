// The sessions of a recording as the manifest states them: {"sessions": [{"name", "subject",
// "rate", "units", "segments": [{"name", "frames", "fields": [...]}]}]}. Files of the recording are
// named relative to it, those in place by their absolute path.
#pragma once

#include <string>
#include <vector>

#include "lacuna/recording/recording.h"

namespace lacuna {

// "m1/gratings/stim.npy", and with a suffix "m1/gratings/stim.check.npy".
std::string field_file(std::string_view session, std::string_view segment, std::string_view field,
                       std::string_view suffix = "");
std::string truth_file(std::string_view session, std::string_view name);  // "truth/m1.spatial.npy"

Json to_json(const Session& session);
// Throws Json::exception or Error for what cannot be; `root` is the recording's directory.
Session session_from_json(const Json& json, const fs::path& root);

// A name that becomes part of a file name and of a message. Throws Error.
void check_part_name(std::string_view kind, const std::string& name);

}  // namespace lacuna
