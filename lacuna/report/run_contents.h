// What the files of a run hold (run_files.h has the types), each read by itself.
//
// All throw Error, or Json::exception, for a file that is damaged: by its checksum, or by what it
// says.
#pragma once

#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/report/run_files.h"

namespace lacuna::report {

void read_run_json(const fs::path& file, Run& run);
std::string read_run_config(const fs::path& file);
// A torn last line is left out, and noted. `run` has its run.json.
void read_metrics_file(const fs::path& file, Run& run);
Evaluation read_evaluation(const fs::path& file);
// Test first, then validation, then others by name. Of the parts that were evaluated: what else
// lies there was not written by that evaluation.
std::vector<Predictions> read_all_predictions(const fs::path& run, const Evaluation& evaluation);
Profile read_profile(const fs::path& file);
Ladder read_ladder(const fs::path& file);

}  // namespace lacuna::report
