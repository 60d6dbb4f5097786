#include "lacuna/run/recording_config.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/plan/machine.h"
#include "lacuna/recording/transforms/transform_settings.h"

namespace lacuna {
namespace {

constexpr const char* kRecordingDefaults = R"(
recording: ""         # the recording's directory
split: trials         # which of its splits
sessions: []          # by name; none named: all
segments: []          # by name; none named: all
units: []             # UNIT or SESSION/UNIT; none named: all
window:
  stimulus: stim      # the field of frames
  lags: 33            # rows of it, newest first
  inputs: []          # further fields: behavior, behavior:5 (5 lags), robs:10@1 (10 rows from t - 1 on)
  counts: robs        # the target
  rows: 1             # of it in a training window: 8 consecutive ones share most of their frames
  validity: ""        # of units; none named: the field of that role
  step: 1             # bins a row: 2 halves the rate
  most_gap: 1.5       # of a bin: a longer step of time ends a run
transforms: ""        # new fields: {NEW: {from: FIELD, ops: [..]}} (docs/recordings.md)
derived: ""           # where `lacuna prepare CONFIG` writes those that are made once; none named: RECORDING.derived
rung: disk:u8         # where frames lie, and who casts; `lacuna plan` compares them
store: ""             # of a rung that needs one: what `lacuna prepare` wrote
tiered:
  hot: 0              # bytes in memory at most, such as 40GB
  rungs: []           # SESSION=RUNG of sessions that are to lie on a given one
order:
  by: proportional    # to length; or balanced, or weights
  weights: []         # NAME=SHARE of sessions or subjects, with by: weights
  mixed: true         # several sessions in a batch; false: one a batch
  column: ""          # a field [T] that weighs the drawing of windows, such as contrast
model:
  name: core_readout
train:
  epochs: 20
  steps_an_epoch: 0   # 0: every window once
  batch: 256
  lr: 1e-3
  weight_decay: 1e-2
  warmup_steps: 100
  restart_epochs: 20  # the first cosine period
  restart_factor: 1   # a period is so many times as long as the one before
  clip: 10            # of the gradient's norm; 0: none
  accumulate: 1       # batches a step
  patience: 0         # epochs without better validation bits per spike before it stops; 0: never
  validation_windows: 4096  # the same ones every epoch, of every session
  freeze: none        # core: only the readouts are fitted
  weights: ""         # a run to take the weights from, for sessions and units that it has
  precision: f32      # bf16
  device: auto        # cpu, cuda
  seed: 1
  threads: 1          # of the loader
  log_every: 50       # steps
  checkpoint_minutes: 5
evaluate:
  parts: [validation, test]  # []: nothing is evaluated, and no fields are computed
  baselines: true
  bootstrap: 1000     # rounds over trials; 0: no intervals
)";

uint64_t whole_number(std::string_view text, const std::string& all) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error("window.inputs: '{}' is not FIELD, FIELD:LAGS or FIELD:LAGS@FIRST", all);
  return value;
}

// "m1=2"
std::pair<std::string, double> weight_from_text(const std::string& text) {
  const size_t equals = text.rfind('=');
  double weight = 0;
  if (equals == std::string::npos || equals == 0 ||
      !YAML::convert<double>::decode(YAML::Node(text.substr(equals + 1)), weight) ||
      !(weight > 0) || weight > 1e12)
    throw Error("order.weights: '{}' is not NAME=SHARE with a share above 0, such as monkey1=2",
                text);
  return {text.substr(0, equals), weight};
}

void read_tiers(const Settings& tiered, RecordingOptions& options) {
  options.hot_bytes = bytes_from_text(tiered.text("hot"));
  for (const std::string& text : tiered.list("rungs")) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw Error("tiered.rungs: '{}' is not SESSION=RUNG, such as m1=ram:u8", text);
    options.rungs[text.substr(0, equals)] = recording_rung_from_name(text.substr(equals + 1));
  }
}

}  // namespace

const char* default_recording_config() { return kRecordingDefaults; }

LaggedField lagged_field_from_text(const std::string& text) {
  const size_t colon = text.find(':');
  LaggedField field = {.field = text.substr(0, colon)};
  if (field.field.empty()) whole_number("", text);
  if (colon == std::string::npos) return field;
  const size_t at = text.find('@', colon);
  field.lags = whole_number(std::string_view(text).substr(colon + 1, at - colon - 1), text);
  if (at != std::string::npos)
    field.first = whole_number(std::string_view(text).substr(at + 1), text);
  if (field.lags == 0) throw Error("window.inputs: '{}' has no lags; 1 or more", text);
  return field;
}

std::string to_text(const LaggedField& field) {
  if (field.first > 0) return fmt::format("{}:{}@{}", field.field, field.lags, field.first);
  return field.lags == 1 ? field.field : fmt::format("{}:{}", field.field, field.lags);
}

RecordingOptions read_recording_options(const YAML::Node& tree) {
  const Settings top(tree, ""), window(tree["window"], "window"), order(tree["order"], "order"),
      train(tree["train"], "train");
  RecordingOptions options;
  options.path = top.text("recording");
  options.derived = top.text("derived");
  WindowSettings& windows = options.windows;
  windows.stimulus = {.field = window.text("stimulus"),
                      .lags = uint64_t(window.count("lags", 1, 100'000))};
  for (const std::string& text : window.list("inputs"))
    windows.inputs.push_back(lagged_field_from_text(text));
  windows.counts = window.text("counts");
  options.rows = uint64_t(window.count("rows", 1, 100'000));
  windows.validity = window.text("validity");
  windows.step = uint64_t(window.count("step", 1, 1'000'000));
  windows.most_gap = window.number("most_gap", 1);
  windows.sessions = top.list("sessions");
  windows.segments = top.list("segments");
  windows.units = top.list("units");
  const YAML::Node transforms = tree["transforms"];
  if (transforms.IsMap())
    windows.transforms = transform_settings(transforms);
  else if (!transforms.IsScalar() || !transforms.Scalar().empty())
    throw Error(
        "transforms holds no new fields; write them as {{NEW: {{from: FIELD, ops: [..]}}}}");
  options.rung = recording_rung_from_name(top.text("rung"));
  read_tiers(Settings(tree["tiered"], "tiered"), options);
  options.order = order.choice("by", {"proportional", "balanced", "weights"});
  for (const std::string& text : order.list("weights"))
    options.weights.push_back(weight_from_text(text));
  std::set<std::string> named;
  for (const auto& [name, weight] : options.weights)
    if (!named.insert(name).second)
      throw Error("order.weights names '{}' twice; name it once", name);
  if ((options.order == "weights") == options.weights.empty())
    throw Error(options.weights.empty()
                    ? "order.by is weights, but order.weights is empty; add NAME=SHARE of sessions "
                      "or subjects"
                    : "order.weights is given, but order.by is not weights; set order.by=weights");
  options.mixed = order.flag("mixed");
  options.weight_column = order.text("column");
  options.steps_an_epoch = uint64_t(train.count("steps_an_epoch", 0));
  options.validation_windows = uint64_t(train.count("validation_windows", 1));
  options.freeze = train.choice("freeze", {"none", "core"});
  options.weights_from = train.text("weights");
  if (options.freeze == "core" && options.weights_from.empty())
    throw Error(
        "train.freeze is core, but there are no weights to freeze; name a run: "
        "--set train.weights=RUN");
  return options;
}

}  // namespace lacuna
