// For tests only: a toy recording (recording/testing.h) with a split, and a small task on it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lacuna/recording/field_values.h"
#include "lacuna/recording/testing.h"
#include "lacuna/train/recording/recording_task.h"

namespace lacuna {

// By trials: two of five are held out, and all of a session that is named.
inline void split_toy(const fs::path& path, const std::string& held_out = "") {
  const Recording recording = Recording::open(path);
  RecordingSplit split;
  split.name = "trials";
  std::vector<uint8_t> parts;
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments) {
      split.segments.push_back({session.name, segment.name, parts.size(), segment.frames});
      for (const int64_t trial : read_whole_numbers(segment.field("trial"))) {
        const Part part = trial < 0                                    ? Part::unused
                          : trial % 5 == 3 || session.name == held_out ? Part::validation
                          : trial % 5 == 4                             ? Part::test
                                                                       : Part::train;
        parts.push_back(uint8_t(part));
      }
    }
  split.parts = Array::from(std::move(parts));
  split.how = {{"command", "test"}};
  add_split(path, split);
}

// device: one of `settings` may name another than the CPU.
inline std::unique_ptr<RecordingTask> open_toy_task(const fs::path& recording,
                                                    std::vector<std::string> settings,
                                                    Group& group = Group::alone()) {
  settings.insert(settings.begin(),
                  {"window.lags=3", "window.inputs=[behavior]", "train.batch=12",
                   "train.device=cpu", "train.threads=0", "model.channels=3", "model.temporal=2",
                   "model.layers=1", "model.first_kernel=3", "model.behaviour_width=2"});
  const Config config = parse_config("recording: " + recording.string() + "\n", settings);
  return std::make_unique<RecordingTask>(open_recording_session(
      config, [](const std::string&) {}, Progress::none(), group));
}

inline const DeviceWindows& windows_of(const Batch* batch) {
  return static_cast<const DeviceWindows&>(*batch);
}

}  // namespace lacuna
