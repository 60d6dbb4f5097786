#include "lacuna/train/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr const char* kDefaults = R"(
screen: ""            # the screen's directory
split: random         # which of its splits
labels: []            # which of its labels; none named: all
graph: kept           # or shuffled: the same degrees, other partners (a control)
rung: kernel
model:
  name: hetero_gin
train:
  epochs: 20
  batch: 28           # or auto
  lr: 1e-3
  weight_decay: 1e-2
  warmup_steps: 100
  restart_epochs: 20
  restart_factor: 1
  clip: 10
  accumulate: 1
  patience: 0
  loss: mse           # logcosh, huber
  weight_column: ""
  precision: f32      # bf16
  device: auto        # cpu, cuda
  seed: 1
  threads: 1
  log_every: 50
  checkpoint_minutes: 5
evaluate:
  parts: [validation, test]
  baselines: true
  bootstrap: 1000
)";

// How many letters must be changed, added or dropped to turn one word into the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

[[noreturn]] void throw_unknown(const std::string& key, const YAML::Node& known) {
  std::string nearest;
  for (const auto& entry : known) {
    const auto name = entry.first.as<std::string>();
    if (nearest.empty() || distance(key, name) < distance(key, nearest)) nearest = name;
  }
  throw Error("the config has no key '{}'; did you mean '{}'?", key, nearest);
}

// Lays `given` over `base`. The model's own keys are checked by the model.
void merge(YAML::Node base, const YAML::Node& given, const std::string& where) {
  if (!given.IsMap())
    throw Error("{} must hold keys and values", where.empty() ? "the config" : "'" + where + "'");
  for (const auto& entry : given) {
    const auto key = entry.first.as<std::string>();
    const std::string full = where.empty() ? key : where + "." + key;
    if (where != "model" && !base[key]) throw_unknown(full, base);
    if (base[key] && base[key].IsMap())
      merge(base[key], entry.second, full);
    else
      base[key] = entry.second;
  }
}

void apply_setting(YAML::Node base, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError("--set {} is not key=value; for example --set train.lr=3e-4", setting);
  const std::string key = setting.substr(0, equals);
  YAML::Node tree = YAML::Load(setting.substr(equals + 1));
  for (size_t end = key.size(); end != std::string::npos;) {
    const size_t dot = key.rfind('.', end - 1);
    YAML::Node parent;
    parent[dot == std::string::npos ? key.substr(0, end) : key.substr(dot + 1, end - dot - 1)] =
        tree;
    tree = parent;
    end = dot;
  }
  merge(base, tree, "");
}

template <class T>
T read(const YAML::Node& node, const std::string& key, const char* wanted) {
  try {
    return node.as<T>();
  } catch (const YAML::Exception&) {
    throw Error("config key '{}' must be {}", key, wanted);
  }
}

class Section {
 public:
  Section(const YAML::Node& node, std::string name) : node_(node), name_(std::move(name)) {}

  std::string text(const char* key) const {
    return read<std::string>(node_[key], full(key), "a word");
  }
  bool flag(const char* key) const { return read<bool>(node_[key], full(key), "true or false"); }
  std::vector<std::string> list(const char* key) const {
    return read<std::vector<std::string>>(node_[key], full(key), "a list, such as [a, b]");
  }
  int64_t count(const char* key, int64_t least) const {
    const auto value = read<int64_t>(node_[key], full(key), "a whole number");
    if (value < least)
      throw Error("config key '{}' is {}, but must be at least {}", full(key), value, least);
    return value;
  }
  double number(const char* key, double least) const {
    const auto value = read<double>(node_[key], full(key), "a number");
    if (!(value >= least))
      throw Error("config key '{}' is {}, but must be at least {}", full(key), value, least);
    return value;
  }
  std::string choice(const char* key, const std::vector<std::string>& choices) const {
    const std::string value = text(key);
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      throw Error("config key '{}' is '{}', but must be one of: {}", full(key), value,
                  fmt::join(choices, ", "));
    return value;
  }

 private:
  std::string full(const char* key) const { return name_.empty() ? key : name_ + "." + key; }

  YAML::Node node_;
  std::string name_;
};

TrainOptions read_train(const Section& s) {
  TrainOptions t;
  t.epochs = s.count("epochs", 1);
  t.batch = s.text("batch") == "auto" ? 0 : s.count("batch", 1);
  t.lr = s.number("lr", 0);
  t.weight_decay = s.number("weight_decay", 0);
  t.warmup_steps = s.count("warmup_steps", 0);
  t.restart_epochs = s.count("restart_epochs", 1);
  t.restart_factor = s.number("restart_factor", 1);
  t.clip = s.number("clip", 0);
  t.accumulate = s.count("accumulate", 1);
  t.patience = s.count("patience", 0);
  t.loss = s.choice("loss", {"mse", "logcosh", "huber"});
  t.weight_column = s.text("weight_column");
  t.precision = s.choice("precision", {"f32", "bf16"});
  t.device = s.choice("device", {"auto", "cpu", "cuda"});
  t.seed = uint64_t(s.count("seed", 0));
  t.threads = s.count("threads", 0);
  t.log_every = s.count("log_every", 1);
  t.checkpoint_minutes = s.number("checkpoint_minutes", 0);
  return t;
}

Config resolve(const YAML::Node& tree) {
  const Section top(tree, ""), evaluate(tree["evaluate"], "evaluate");
  Config config;
  config.screen = top.text("screen");
  if (config.screen.empty())
    throw Error("the config names no screen; add `screen: DIRECTORY` or --set screen=DIRECTORY");
  config.split = top.text("split");
  config.labels = top.list("labels");
  config.graph = top.choice("graph", {"kept", "shuffled"});
  config.rung = top.choice("rung", {"kernel"});
  config.model = tree["model"];
  config.train = read_train(Section(tree["train"], "train"));
  config.evaluate = {evaluate.list("parts"), evaluate.flag("baselines"),
                     evaluate.count("bootstrap", 0)};
  config.resolved = tree;
  return config;
}

}  // namespace

const char* default_config() { return kDefaults; }

Config parse_config(const std::string& text, const std::vector<std::string>& settings) {
  YAML::Node tree = YAML::Load(kDefaults);
  const YAML::Node given = YAML::Load(text);
  if (!given.IsNull()) merge(tree, given, "");
  for (const std::string& setting : settings) apply_setting(tree, setting);
  return resolve(tree);
}

Config read_config(const fs::path& path, const std::vector<std::string>& settings) {
  try {
    return parse_config(read_text(path), settings);
  } catch (const YAML::ParserException& error) {
    throw Error("{}: line {}: {}", path.string(), error.mark.line + 1, error.msg);
  }
}

std::string to_yaml(const Config& config) {
  YAML::Emitter out;
  out << config.resolved;
  return std::string(out.c_str()) + "\n";
}

}  // namespace lacuna
