// Statistics of transforms, kept beside the recording they were learned from, so that a later start
// need not read the training rows again: RECORDING/statistics/KEY.json.
//
// The key is XXH3 of all that decides the numbers: the session's fingerprint (the recording's where
// the statistic is over it), the rows of the split, the ops up to this one, those of the sources,
// the files of Python functions, the version of the transforms. A file that is damaged is not
// believed: the statistic is learned again.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "lacuna/core/hash.h"
#include "lacuna/recording/transforms/transforms.h"

namespace lacuna {

// Of op number `op` of `field`, in one segment. Nothing where its split is not known: whoever
// learns it says so.
std::optional<uint64_t> statistic_key(const Recording& recording, const Session& session,
                                      const Segment& segment,
                                      const std::vector<TransformedField>& fields,
                                      const TransformedField& field, size_t op);
inline constexpr const char* kStatisticFormat = "lacuna.statistic";
// Where it is kept, whether it is there or not.
fs::path statistic_file(const fs::path& recording, uint64_t key);
// Files of all statistics that these transforms may need of a recording.
std::set<fs::path> statistic_files(const Transforms& transforms, const Recording& recording);
std::optional<OpStatistic> recall_statistic(const fs::path& recording, uint64_t key);
// A recording that cannot be written to remembers nothing: the next start takes longer.
void remember_statistic(const fs::path& recording, uint64_t key, const OpStatistic& statistic);

// Adds what a statistic depends on beside the session's own fields: the parts of its split, the
// whole recording where it is over that. False: it names no split of the recording.
bool add_statistic_rows(const Recording& recording, const Session& session, const Json& op,
                        Hasher& hasher);
// Adds the file of the function that an op calls, where it is one that calls Python.
void add_python_file(const std::string& op, const Json& settings, Hasher& hasher);

}  // namespace lacuna
