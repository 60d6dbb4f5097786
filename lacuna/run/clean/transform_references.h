// What a training's config reads of what transforms have left on disk: the recording that was
// derived for it (prepared_recording.h) and the statistics that are remembered beside a recording
// (recording/transforms/statistic_memory.h). For clean_stores.h.
#pragma once

#include <set>

#include "lacuna/core/system/file.h"

namespace lacuna {

// recording: the one that `config`, a file, means. Derived recordings and files of statistics,
// there or not, as absolute paths. Where the config cannot be followed (it is of another version,
// its recording is gone or has changed) all that lies there counts as read: better one too many.
std::set<fs::path> transform_references(const fs::path& config, const fs::path& recording);

}  // namespace lacuna
