// What the config of a recording names, opened: the recording, its windows by part, the frames on
// their rung, the model. Training (recording_task.h), evaluate and predict start here.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/guards.h"
#include "lacuna/ladder/recording_source.h"
#include "lacuna/nn/models/core_readout.h"
#include "lacuna/run/config.h"
#include "lacuna/run/run.h"
#include "lacuna/screen/samples.h"
#include "lacuna/store/safetensors.h"
#include "lacuna/train/group.h"
#include "lacuna/train/recording/session_scale.h"

namespace lacuna {

struct RecordingSession {
  Config config;
  Recording recording;
  Windows windows;                // all of the chosen sessions
  std::map<Part, Windows> parts;  // of the split, of one row; a part without windows is not there
  Windows training;               // what training draws: of window.rows target rows
  Fingerprint fingerprint;        // of the chosen sessions
  Frames frames;
  std::vector<uint32_t> sessions;    // [S] the model's, as numbers in the recording
  std::vector<SessionScale> scales;  // [S]
  std::shared_ptr<CoreReadout> model;
  at::Device device = at::kCPU;
  at::Tensor movie;  // device:resident: all frames, [rows, Y, X] u8
  Group* group = &Group::alone();
  std::shared_ptr<MemoryWatch> watch;         // says when memory is about to end
  std::shared_ptr<const DirectoryLock> lock;  // PreparedRecording::lock

  const Windows& part(Part part) const;  // throws Error where it has no windows
  bool has(Part part) const { return parts.contains(part); }
  // Of a session of the recording; -1: not the model's.
  int64_t model_session(uint32_t session) const;
  std::vector<std::string> unit_names(int64_t model_session) const;
};

// Opens everything. New weights, or those of the run that `train.weights` names, as far as it has
// the sessions; not so where a run goes on (goes_on), whose own checkpoint has them all, and the
// scales, too: take_up() brings them, and nothing of the training part is read before.
// config.sessions names all sessions afterwards, so that one that is added later does not change
// what the run is trained on.
RecordingSession open_recording_session(const Config& config, const Note& note,
                                        Progress& progress = Progress::none(),
                                        Group& group = Group::alone(), bool goes_on = false);

// A run with the weights of a checkpoint ("": the best, else the last); `device` and `recording`
// override the run's where they are not empty. The rung is disk:u8 where the run's own needs a
// store that is not there any more.
struct OpenRecordingRun {
  std::string checkpoint = {}, device = {};
  fs::path recording = {};
};
RecordingSession open_recording_run(const Run& run, const OpenRecordingRun& request,
                                    const Note& note, Progress& progress,
                                    Group& group = Group::alone());

// What a checkpoint holds beside weights: units and scales of every session, the model's settings.
Json recording_checkpoint_members(const RecordingSession& session);
// Takes the scales of a checkpoint. Throws Error naming what differs: a session or unit that has
// come or gone since, or fields that have other bytes.
void take_up(const Safetensors& contents, const fs::path& file, RecordingSession& session);

}  // namespace lacuna
