#include "lacuna/run/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/core/text/text.h"
#include "lacuna/core/text/yaml_text.h"
#include "lacuna/ladder/screen_rungs.h"
#include "lacuna/run/model_settings.h"
#include "lacuna/run/plugin/plugin.h"
#include "lacuna/screen/samples.h"

namespace lacuna {
namespace {

constexpr const char* kDefaults = R"(
screen: ""            # the screen's directory
split: random         # which of its splits
labels: []            # which of its labels; none named: all
graph: kept           # or shuffled: the same degrees, other partners (a control)
rung: kernel          # where masks are made; `lacuna plan` compares them
store: ""             # of a disk rung: what `lacuna prepare` wrote
plugin: ""            # a library with a model of your own
model:
  name: hetero_gin
train:
  epochs: 20
  batch: 28           # or auto
  lr: 1e-3
  weight_decay: 1e-2
  warmup_steps: 100
  restart_epochs: 20  # the first cosine period
  restart_factor: 1   # a period is so many times as long as the one before
  clip: 10            # of the gradient's norm; 0: none
  accumulate: 1       # batches a step
  patience: 0         # epochs without a better validation Pearson before it stops; 0: never
  hide: 0             # probability that a gene's own row is hidden for a step; see docs/runs.md
  loss: mse           # logcosh, huber
  weight_column: ""   # of the screen: weighs the samples in the loss
  precision: f32      # bf16
  device: auto        # cpu, cuda
  seed: 1
  threads: 1          # of the loader
  compute_threads: auto  # of torch on the CPU; auto: measured, and kept in the run's config
  log_every: 50       # steps
  checkpoint_minutes: 5
evaluate:
  parts: [validation, test]
  baselines: true
  bootstrap: 1000     # rounds; 0: no intervals
)";

// "train.lr=3e-4" as a tree: {train: {lr: 3e-4}}.
YAML::Node tree_of(const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError("--set {} is not key=value; for example --set train.lr=3e-4", setting);
  const std::string key = setting.substr(0, equals);
  if (key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos)
    throw UsageError("--set {}: key '{}' has an empty part; write it as in train.lr", setting, key);
  YAML::Node tree;
  try {
    tree = load_yaml(setting.substr(equals + 1), "--set " + setting);
  } catch (const Error& error) {
    throw UsageError("{}", error.what());
  }
  for (size_t end = key.size(); end != std::string::npos;) {
    const size_t dot = key.rfind('.', end - 1);
    YAML::Node parent;
    parent[dot == std::string::npos ? key.substr(0, end) : key.substr(dot + 1, end - dot - 1)] =
        tree;
    tree = parent;
    end = dot;
  }
  return tree;
}

TrainOptions read_train(const Settings& s, DataKind kind) {
  const bool is_screen = kind == DataKind::screen;
  TrainOptions t;
  t.epochs = s.count("epochs", 1);
  t.batch = is_screen && s.text("batch") == "auto" ? 0 : s.count("batch", 1, 1'000'000);
  t.lr = s.number("lr", 0);
  t.weight_decay = s.number("weight_decay", 0);
  t.warmup_steps = s.count("warmup_steps", 0);
  t.restart_epochs = s.count("restart_epochs", 1);
  t.restart_factor = s.number("restart_factor", 1);
  t.clip = s.number("clip", 0);
  t.accumulate = s.count("accumulate", 1);
  t.patience = s.count("patience", 0);
  t.loss = is_screen ? s.choice("loss", {"mse", "logcosh", "huber"}) : "poisson";
  if (is_screen) t.hide = s.number("hide", 0, 1);
  if (is_screen) t.weight_column = s.text("weight_column");
  t.precision = s.choice("precision", {"f32", "bf16"});
  t.device = s.choice("device", {"auto", "cpu", "cuda"});
  t.seed = uint64_t(s.count("seed", 0, std::numeric_limits<int64_t>::max()));
  t.threads = s.count("threads", 0, 1024);
  if (is_screen && s.text("compute_threads") != "auto")
    t.compute_threads = s.count("compute_threads", 1, 1024);
  t.log_every = s.count("log_every", 1);
  t.checkpoint_minutes = s.number("checkpoint_minutes", 0);
  return t;
}

// Which of the two lists of keys a tree is of.
DataKind kind_of(const YAML::Node& tree) {
  return tree["recording"] ? DataKind::recording : DataKind::screen;
}

void read_screen_options(const Settings& top, Config& config) {
  config.screen = top.text("screen");
  if (config.screen.empty())
    throw Error(
        "the config names no screen; add `screen: DIRECTORY` or --set screen=DIRECTORY "
        "(or `recording: DIRECTORY`)");
  config.labels = top.list("labels");
  config.graph = top.choice("graph", {"kept", "shuffled"});
  config.plugin = top.text("plugin");
  config.rung = rung_from_name(top.text("rung"), kScreenRungs);
}

// Checks the model's keys here, where it is still known which file or setting they come from. A
// program without torch has no models, and no need of their keys: `lacuna prepare CONFIG`.
void check_model(const Config& config, const YAML::Node& model) {
  if (model_names(config.kind()).empty()) return;
  if (!config.plugin.empty()) load_plugin(config.plugin);
  complete_model(YAML::Clone(model), config.kind());
}

Config resolve(YAML::Node tree) {
  const DataKind kind = kind_of(tree);
  if (!named_plugin().empty()) {
    if (kind == DataKind::recording)
      throw UsageError("--plugin brings models of screens, and the config names a recording");
    tree["plugin"] = named_plugin().string();
  }
  const Settings top(tree, ""), evaluate(tree["evaluate"], "evaluate");
  Config config;
  if (kind == DataKind::screen) {
    read_screen_options(top, config);
  } else {
    config.recording = read_recording_options(tree);
    if (!config.recording.is_given())
      throw Error(
          "the config names no recording; add `recording: DIRECTORY` or --set "
          "recording=DIRECTORY");
  }
  config.split = top.text("split");
  config.store = top.text("store");
  config.model = tree["model"];
  config.train = read_train(Settings(tree["train"], "train"), kind);
  config.evaluate = {evaluate.list("parts"), evaluate.flag("baselines"),
                     evaluate.count("bootstrap", 0, 1'000'000)};
  std::set<Part> parts;
  for (const std::string& part : config.evaluate.parts)
    if (!parts.insert(part_from_name(part)).second)
      throw Error("evaluate.parts names '{}' twice; name each part once",
                  name(part_from_name(part)));
  check_model(config, tree["model"]);
  config.resolved = tree;
  return config;
}

// An error that `base` alone does not have comes from the settings: a UsageError.
Config resolve_with(const YAML::Node& base, const std::vector<std::string>& settings) {
  try {
    const YAML::Node tree = YAML::Clone(base);
    for (const std::string& setting : settings) lay_over(tree, tree_of(setting), "", "model");
    return resolve(tree);
  } catch (const Error& error) {
    std::string without;
    try {
      resolve(base);
    } catch (const Error& other) {
      without = other.what();
    }
    if (without == error.what()) throw;
    throw UsageError("{}", error.what());
  }
}

// A text, or a setting on top of it, that names a recording has the keys of recordings.
bool names_recording(const YAML::Node& given, const std::vector<std::string>& settings) {
  if (given.IsMap() && given["recording"]) return true;
  const bool has_screen = given.IsMap() && given["screen"];
  return !has_screen && std::any_of(settings.begin(), settings.end(), [](const std::string& text) {
    return text.starts_with("recording=");
  });
}

// `where` names the text in messages.
Config parse_named(const std::string& text, const std::string& where,
                   const std::vector<std::string>& settings) {
  const YAML::Node given = load_yaml(text, where);
  const bool names = names_recording(given, settings);
  if (names && given.IsMap() && given["screen"])
    throw Error("{} names both a screen and a recording; keep one", where);
  YAML::Node tree = YAML::Load(names ? default_recording_config() : kDefaults);
  if (!given.IsNull()) lay_over(tree, given, "", "model");
  return resolve_with(tree, settings);
}

// The model that the last of these settings names; empty where none does.
std::string model_named(const std::vector<std::string>& settings) {
  std::string name;
  for (const std::string& setting : settings) {
    const YAML::Node model = tree_of(setting)["model"];
    if (model && model.IsMap() && model["name"]) name = Settings(model, "model").text("name");
  }
  return name;
}

std::string flat_text(const YAML::Node& node) {
  if (node.IsNull() || node.IsScalar()) return node.Scalar();
  if (!node.IsSequence()) return YAML::Dump(node);
  std::vector<std::string> items;
  for (const YAML::Node& item : node) items.push_back(flat_text(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void flatten(const YAML::Node& node, const std::string& where,
             std::map<std::string, std::string>& out) {
  for (const auto& entry : node) {
    const std::string key = where + flat_text(entry.first);
    if (entry.second.IsMap())
      flatten(entry.second, key + ".", out);
    else
      out[key] = flat_text(entry.second);
  }
}

bool is_model(const std::string& name, DataKind kind) {
  const std::vector<std::string> names = model_names(kind);
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The settings that are places, and where a config has them.
std::map<std::string, fs::path*> places_of(Config& config) {
  if (config.kind() == DataKind::screen)
    return {{"screen", &config.screen}, {"store", &config.store}, {"plugin", &config.plugin}};
  return {{"recording", &config.recording.path},
          {"derived", &config.recording.derived},
          {"store", &config.store}};
}

}  // namespace

const char* default_config() { return kDefaults; }

Config parse_config(const std::string& text, const std::vector<std::string>& settings) {
  return parse_named(text, "the config", settings);
}

Config vary_config(const Config& config, const std::vector<std::string>& settings,
                   std::vector<std::string>& left_out) {
  YAML::Node tree = YAML::Clone(config.resolved);
  const std::string model = model_named(settings);
  if (is_model(model, config.kind()) && model != config.model["name"].as<std::string>()) {
    const YAML::Node known = YAML::Load(model_defaults(model, config.kind()));
    for (const auto& entry : config.model) {
      const auto key = entry.first.as<std::string>();
      if (known[key]) continue;
      tree["model"].remove(key);
      left_out.push_back("model." + key);
    }
  }
  return resolve_with(tree, settings);
}

Config read_config(const fs::path& path, const std::vector<std::string>& settings) {
  Config config = parse_named(read_sealed_yaml(path), path.string(), settings);
  config.words = shell_word(path.string());
  for (const std::string& setting : settings) config.words += " --set " + shell_word(setting);
  return config;
}

void make_paths_absolute(Config& config) {
  for (const auto& [key, path] : places_of(config)) {
    if (path->empty()) continue;
    *path = fs::absolute(*path);
    config.resolved[key] = path->string();
  }
  fs::path& weights = config.recording.weights_from;
  if (weights.empty()) return;
  weights = fs::absolute(weights);
  config.resolved["train"]["weights"] = weights.string();
}

bool is_place(const std::string& key) {
  return key == "screen" || key == "recording" || key == "derived" || key == "store" ||
         key == "plugin";
}

void take_places(Config& config, const Config& from) {
  Config other = from;
  const auto there = places_of(other);
  for (const auto& [key, path] : places_of(config)) {
    *path = *there.at(key);
    config.resolved[key] = path->string();
  }
}

std::map<std::string, std::string> settings_of(const YAML::Node& tree) {
  std::map<std::string, std::string> settings;
  if (tree.IsMap()) flatten(tree, "", settings);
  return settings;
}

std::map<std::string, std::string> settings_of(const std::string& yaml, const std::string& where) {
  return settings_of(load_yaml(yaml, where));
}

std::string to_yaml(const Config& config) {
  YAML::Emitter out;
  out << config.resolved;
  return std::string(out.c_str()) + "\n";
}

}  // namespace lacuna
