// What a training's config reads of what transforms have left on disk: the recording that was
// derived for it (prepared_recording.h) and what is remembered beside a recording: statistics of
// transforms (recording/transforms/statistic_memory.h), and what new trainings start from
// (session_start.h). For clean_stores.h.
#pragma once

#include <set>

#include "lacuna/core/system/file.h"

namespace lacuna {

// recording: the one that `config`, a file, means. Derived recordings and files of statistics,
// there or not, as absolute paths. Where the config cannot be followed (it is of another version,
// its recording is gone or has changed) all that lies there counts as read: better one too many.
std::set<fs::path> transform_references(const fs::path& config, const fs::path& recording);

}  // namespace lacuna
