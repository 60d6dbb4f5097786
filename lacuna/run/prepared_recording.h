// The recording that the windows of a config are cut from: the one it names or, where transforms
// must be written before (transform_stages.h), the one that `lacuna prepare CONFIG` derived from
// it.
//
// It lies where the config says (`derived`), else at RECORDING.derived/KEY, with a key of the
// transforms: other transforms get another place.
#pragma once

#include <memory>
#include <string>

#include "lacuna/recording/recording.h"
#include "lacuna/recording/transforms/derive_recording.h"
#include "lacuna/recording/transforms/transform_stages.h"
#include "lacuna/run/config.h"
#include "lacuna/store/directory_lock.h"

namespace lacuna {

struct PreparedRecording {
  Recording recording;
  WindowSettings windows;          // its transforms are those that are made late
  Json frame_ops = Json::array();  // FramesOptions::view
  // Of a derived one: while it lives nobody removes what is read. Null: the recording itself.
  std::shared_ptr<const DirectoryLock> lock = {};
};

// Of a config: fields that are written once, those made late of rows, and late ops of the frames.
struct ConfigStages {
  TransformStages fields;
  Json frame_ops = Json::array();
};
ConfigStages stages_of(const Recording& source, const RecordingOptions& options);
fs::path derived_place(const RecordingOptions& options, const Json& once);
// What derive_recording() is called with for a config.
DeriveOptions derive_options(const RecordingOptions& options, const TransformStages& stages);

// Throws Error with the command that writes it where the derived recording is missing, lacks a
// session, or was made from other bytes than the recording has now.
PreparedRecording open_prepared(const Config& config);

}  // namespace lacuna
