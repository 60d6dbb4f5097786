// The settings of a run: a YAML file over the defaults below, with `--set key=value` on top.
//
// Every key has a default but `screen`, so the defaults are the list of what can be set; a key that
// is not in it is an Error that names the nearest one. A config that names a `recording` instead
// has other keys (recording_config.h). The keys under `model` beside `name` are the
// model's own (model_settings.h). A mistake in a file is an Error, one in a setting on top of it a
// UsageError; the values of a model's own keys are checked when the model is made.
#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/ladder/rung.h"
#include "lacuna/run/model_settings.h"
#include "lacuna/run/recording_config.h"

namespace lacuna {

struct TrainOptions {
  int64_t epochs;
  int64_t batch;  // 0: found from the memory there is ("auto")
  double lr, weight_decay;
  int64_t warmup_steps;
  int64_t restart_epochs;  // length of the first cosine period
  double restart_factor;   // each period is this many times as long as the one before
  double clip;             // of the gradient's norm; 0: none
  int64_t accumulate;      // batches a step
  int64_t patience;        // epochs without a better validation Pearson before it stops; 0: never
  double hide = 0;         // probability that a gene's own row is hidden for a step; 0: none is
  std::string loss;        // mse, logcosh, huber; poisson of a recording
  std::string weight_column;
  std::string precision;  // f32, bf16
  std::string device;     // auto, cpu, cuda
  uint64_t seed;
  int64_t threads;              // loader threads
  int64_t compute_threads = 0;  // torch's on the CPU; 0: measured ("auto", train/pace)
  int64_t log_every;
  double checkpoint_minutes;
};

struct EvaluateOptions {
  std::vector<std::string> parts;
  bool baselines;
  int64_t bootstrap;  // rounds; 0: no intervals
};

struct Config {
  fs::path screen;             // or
  RecordingOptions recording;  // where the config names one
  std::string split;
  std::vector<std::string> labels;  // empty: all
  std::string graph;                // kept, shuffled
  Rung rung;                        // where masks are made (ladder/screen_rungs.h)
  fs::path store;                   // of a disk rung
  fs::path plugin;                  // a library that brings the model along (plugin/plugin.h)
  YAML::Node model;
  TrainOptions train;
  EvaluateOptions evaluate;

  YAML::Node resolved;  // all of it, as written into a run
  // How a command names it: "config.yaml --set rung=disk:f32". Of a text that is no file: CONFIG.
  std::string words = "CONFIG";

  DataKind kind() const { return recording.is_given() ? DataKind::recording : DataKind::screen; }
};

// Throws Error or UsageError naming file, key and value.
Config read_config(const fs::path& path, const std::vector<std::string>& settings);
Config parse_config(const std::string& text, const std::vector<std::string>& settings);
// The same config with settings on top. Where they name another model, the keys under `model` of
// `config` that this model has not are left out, and listed in `left_out` ("model.layers").
Config vary_config(const Config& config, const std::vector<std::string>& settings,
                   std::vector<std::string>& left_out);
// Of the data and the store, so that the config means the same in every directory.
void make_paths_absolute(Config& config);
// The settings that say where the data lies, and not what it is: a run goes on where they have
// changed.
bool is_place(const std::string& key);  // "screen", "recording", "derived", "store", "plugin"
void take_places(Config& config, const Config& from);
std::string to_yaml(const Config& config);
// All settings of a YAML text by their full names, "train.lr" -> "1e-3"; a list reads "[a, b]".
// They may be of a model or a version that this program does not know. Throws Error for text that
// is not YAML; `where` names it.
std::map<std::string, std::string> settings_of(const std::string& yaml, const std::string& where);
std::map<std::string, std::string> settings_of(const YAML::Node& tree);
const char* default_config();  // YAML text, with a comment where a key needs one

}  // namespace lacuna
