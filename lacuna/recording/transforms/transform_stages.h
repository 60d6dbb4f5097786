// Which transforms of a config are made late, of the rows that windows read, and which must be
// written once, before (derive_recording.h).
//
// Once: what calls Python, what is read as it is stored (frames, counts), and whatever such a field
// is made from; a late field that means a source of the recording whose name a written one takes.
// Late: all others.
#pragma once

#include <set>
#include <string>

#include "lacuna/recording/transforms/transforms.h"

namespace lacuna {

struct TransformStages {
  Json once = Json::object(), late = Json::object();  // settings, in their order
};

// stored: names of fields that windows read as they are stored.
TransformStages stage_transforms(const Recording& recording, const Json& settings,
                                 const std::set<std::string>& stored);

}  // namespace lacuna
