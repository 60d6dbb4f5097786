// Which kind of data a command was given.
#pragma once

#include "lacuna/core/error.h"
#include "lacuna/recording/recording.h"

namespace lacuna::cli {

// False also for what is not there or cannot be read: who opens it as a screen then says what is
// wrong with it.
inline bool is_recording_at(const fs::path& path) {
  try {
    return Directory::format_of(path) == Recording::kFormat;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lacuna::cli
