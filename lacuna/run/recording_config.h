// What the config of a recording has beside that of a screen: windows, the rung, the order of
// sessions. config.h reads both; `recording: DIRECTORY` instead of `screen` says which it is.
#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/ladder/rung.h"
#include "lacuna/recording/windows.h"

namespace lacuna {

struct RecordingOptions {
  fs::path path;                      // empty: the config is of a screen
  fs::path derived;                   // where transforms are written once (prepared_recording.h)
  WindowSettings windows;             // with sessions, units and transforms of inputs; of one row
  uint64_t rows = 1;                  // target rows of a window that is trained on
  Rung rung;                          // "disk:u8@device"
  uint64_t hot_bytes = 0;             // tiered: never more in memory
  std::map<std::string, Rung> rungs;  // tiered: of sessions that are to lie on a given one
  std::string order;                  // proportional, balanced, weights
  std::vector<std::pair<std::string, double>> weights;  // of a session or a subject, by name
  bool mixed = true;                                    // several sessions in a batch
  std::string weight_column;        // a field [T] that weighs the drawing of windows; empty: none
  uint64_t steps_an_epoch = 0;      // 0: every window once
  uint64_t validation_windows = 0;  // of the fixed subset that epochs are judged on
  std::string freeze;               // none, core
  fs::path weights_from;            // a run whose weights are taken; empty: new ones

  bool is_given() const { return !path.empty(); }
};

const char* default_recording_config();  // YAML text, as default_config()
// Of a complete tree. Throws Error naming the key and what is possible.
RecordingOptions read_recording_options(const YAML::Node& tree);

// "behavior", "behavior:5" (5 rows, newest first) or "robs:10@1" (10 rows from t - 1 on) and back.
LaggedField lagged_field_from_text(const std::string& text);
std::string to_text(const LaggedField& field);

}  // namespace lacuna
