// A derived recording (derive_recording.h) beside what it was made from.
#pragma once

#include <map>
#include <string>

#include "lacuna/core/system/progress.h"
#include "lacuna/recording/recording.h"
#include "lacuna/recording/transforms/derive_recording.h"

namespace lacuna {

// What decides a derived recording beside its source: in its manifest.
Json derived_settings(const DeriveOptions& options);
bool is_derived(const Recording& recording);
// By session, the key that it was made with. Throws Error where these are not the settings.
std::map<std::string, std::string> derived_keys(const Recording& derived, const Json& settings);

// Why `derived` is not what derive_recording() would give now, in words; empty: it is. Nothing but
// the manifests is read.
std::string changed_since(const Recording& source, const Recording& derived,
                          const DeriveOptions& options);

struct VerifiedSources {
  fs::path source;
  bool is_there = false;  // else nothing was compared
  uint64_t rows = 0;      // made again, and the same
};
// Compares the keys of all sessions with the source that the manifest names, and rows made again
// with those that are stored: all of them, or some of each field. Python is not called again.
// Throws Error naming session and field of the first that differs.
VerifiedSources verify_sources(const Recording& derived, bool all,
                               Progress& progress = Progress::none());

}  // namespace lacuna
