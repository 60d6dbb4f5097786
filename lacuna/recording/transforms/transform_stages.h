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

// Ops of a field of frames that are applied when frames are read (ladder/frame_view.h), so that
// nothing is written: where the field takes the place of its only source, which is u8, no other
// field is made from it, and its ops need a frame alone and give bytes. A normalise or a cast to
// f32 at the end is left out where it is what every rung does. only_crops: on a rung that holds
// floats, of which nothing else can be had exactly. None: it must be written.
std::optional<Json> late_frame_ops(const Recording& recording, const Json& settings,
                                   const std::string& field, bool only_crops);

// stored: names of fields that windows read as they are stored.
TransformStages stage_transforms(const Recording& recording, const Json& settings,
                                 const std::set<std::string>& stored);

}  // namespace lacuna
