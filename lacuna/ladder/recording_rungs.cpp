#include "lacuna/ladder/recording_rungs.h"

#include <fmt/ranges.h>

#include <vector>

#include "lacuna/core/error.h"

namespace lacuna {

Rung recording_rung_from_name(std::string_view wanted) {
  std::vector<std::string> names;
  for (const Rung rung : kRecordingRungs) {
    if (name(rung) == wanted) return rung;
    names.push_back(name(rung));
    if (!is_bytes(rung)) continue;
    for (const Place place : {Place::worker, Place::device}) {
      Rung chosen = rung;
      chosen.expanded_at = place;
      if (name(chosen) == wanted) return chosen;
    }
    names.back() += "[@worker|@device]";
  }
  throw Error("there is no rung '{}'; there are: {}", wanted, fmt::join(names, ", "));
}

}  // namespace lacuna
