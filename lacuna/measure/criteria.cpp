#include "lacuna/measure/criteria.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/rung_source.h"
#include "lacuna/load/loader.h"
#include "lacuna/measure/measure_rungs.h"
#include "lacuna/nn/gene_graph.h"
#include "lacuna/run/run.h"
#include "lacuna/screen/splits/split.h"
#include "lacuna/store/safetensors.h"
#include "lacuna/train/batch_feed.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/trainer.h"

namespace lacuna {
namespace {

constexpr uint64_t kMaskSamples = 28;

// The first samples of a screen as a screen of its own, with a split "random".
Screen write_part(const Screen& screen, uint64_t count, const fs::path& path) {
  std::vector<uint64_t> chosen(std::min(count, screen.samples().size()));
  std::iota(chosen.begin(), chosen.end(), 0);
  const Samples samples = take_samples(screen.samples(), chosen);
  write_screen(path, {screen.graph(), samples, {}, {{"command", "lacuna bench criteria"}}});
  add_split(path, draw_split(Screen::open(path), "random", {.seed = 1}));
  return Screen::open(path);
}

// The same samples and split over the same nodes and edge types, without an edge: what trains there
// is the model alone.
void write_without_edges(const Screen& slice, const fs::path& path) {
  HeteroGraph graph;
  for (const NodeType& nodes : slice.graph().node_types()) {
    graph.add_nodes(nodes.name, nodes.names);
    for (const NodeFeature& feature : nodes.features)
      graph.add_feature(nodes.name, feature.name, feature.values);
  }
  for (const EdgeType& type : slice.graph().edge_types()) {
    std::vector<EdgeValue> values;
    for (const EdgeValue& value : type.values)
      values.push_back({value.name, Array::from(std::vector<float>())});
    graph.add_edges(type.source, type.name, type.target,
                    Array::from(std::vector<uint32_t>(), {2, 0}), values);
  }
  write_screen(path,
               {graph, slice.samples(), slice.splits(), {{"command", "lacuna bench criteria"}}});
}

// Shows how far a training is, and counts what it did.
class RunListener : public TrainListener {
 public:
  RunListener(std::string what, Progress& progress) : what_(std::move(what)), progress_(progress) {}

  void step(const TrainProgress& now) override {
    if (!is_shown_) progress_.begin(what_, now.epochs * now.samples, "samples");
    is_shown_ = true;
    progress_.advance(now.epoch * now.samples + now.sample);
  }
  void epoch(const TrainProgress& now, double, const ValidationScores& validation) override {
    if (is_shown_) progress_.end();
    is_shown_ = false;
    steps = now.step;
    trained += now.sample;
    validated = 0;
    for (const Json& label : validation.parts)
      validated = std::max(validated, label.at("count").get<uint64_t>());
  }

  uint64_t steps = 0, trained = 0, validated = 0;

 private:
  std::string what_;
  Progress& progress_;
  bool is_shown_ = false;
};

// Standardised predictions [S, L] of samples of the config's screen, in their order, everything
// computed in f64: an f32 would hide the last bits. checkpoint: whose weights (f32, widened) are
// taken.
std::vector<double> predict_in_f64(const Config& config, const fs::path& checkpoint,
                                   std::vector<uint32_t> samples, const Note& note) {
  Config in_f32 = config;
  in_f32.train.precision = "f32";  // else the model would compute in bf16, whatever its weights
  ScreenSession session = open_session(in_f32, note);
  load_weights(read_checkpoint(checkpoint), checkpoint, *session.model);
  session.model->to(at::kDouble);
  session.model->eval();
  const at::NoGradGuard guard;
  const auto batch = uint64_t(session.config.train.batch);
  const RungSource source(session.screen, session.masks, batch, {.selection = std::move(samples)});
  Loader loader(source, {.order = {.global_batch = batch, .shuffled = false}, .threads = 0});
  std::vector<double> predicted;
  while (const auto next = loader.next()) {
    ModelInput input = make_input(next->samples().removed(), next->samples().ptr());
    input.masks = mask_tensor(*next, session.masks);
    const at::Tensor out = session.model->forward(to_device(input, session.device()))
                               .to(at::kCPU, at::kDouble)
                               .contiguous();  // [B, L]
    predicted.insert(predicted.end(), out.const_data_ptr<double>(),
                     out.const_data_ptr<double>() + out.numel());
  }
  return predicted;
}

class Criteria {
 public:
  Criteria(const Screen& screen, const Screen& slice, const CriteriaSettings& settings,
           const Note& note, Progress& progress)
      : settings_(settings),
        note_(note),
        progress_(progress),
        screen_(screen),
        slice_(slice),
        config_(criteria_config(slice.path(), settings)),
        device_(choose_device(config_.train.device, note)) {}

  std::vector<Criterion> check() {
    train_on_rungs();
    const auto whole = whole_run();
    const auto repeated = repeat();
    return {judge_masks(masks()),   judge_speed(speed()), judge_predictions(predictions()),
            judge_memory(memory()), judge_run(whole),     judge_repeat(repeated)};
  }

 private:
  bool has_gpu() const { return device_.is_cuda(); }
  static NoAnswer failure(std::string why) { return {std::move(why), /*is_failure=*/true}; }

  // ---- training on every rung, which two of the questions are about
  void train_on_rungs() {
    progress_.begin("training on every rung", kScreenRungs.size(), "rungs");
    uint64_t done = 0;
    for (const Rung rung : kScreenRungs) {
      try {
        trained_[rung] = train_on(config_, rung);
      } catch (const std::exception& error) {
        throw_if_stopped();
        trained_.erase(rung);
        failed_ += fmt::format("{}rung {} failed: {}", failed_.empty() ? "" : "; ", name(rung),
                               error.what());
      }
      progress_.advance(++done);
    }
    progress_.end();
  }

  RungTraining train_on(const Config& config, Rung rung) const {
    throw_if_stopped();
    const RungTrainingSettings settings = {
        .folder = settings_.folder, .rungs = {rung}, .steps = settings_.steps};
    return measure_rungs(config, settings, note_).at(rung);
  }

  uint64_t bytes_of(const RungTraining& trained) const {
    return has_gpu() ? trained.device_bytes : trained.host_bytes;
  }

  // ---- 1
  Measured<MaskMeasurement> masks() const {
    if (!has_gpu()) return NoAnswer{"there is no GPU here"};
    const HeteroGraph& graph = slice_.graph();
    const RemovalRules rules(graph);
    const MaskLayout layout(rules, MaskForm::u8);
    const MaskTable table(rules, layout);
    GeneGraph on_gpu(graph, device_);
    on_gpu.make_masks(graph);
    std::vector<int32_t> removed, ptr = {0};
    Random random(slice_.samples().size());
    const uint64_t half = graph.genes().size() / 2;
    for (uint64_t b = 0; b < kMaskSamples; ++b) {  // from the wild type to half of all genes
      for (uint64_t i = 0; i < (b == 1 ? half : b % 9); ++i)
        removed.push_back(int32_t(random.below(graph.genes().size())));
      ptr.push_back(int32_t(removed.size()));
    }
    std::vector<uint8_t> expected(kMaskSamples * layout.stride());
    write_masks(layout, table, {removed, ptr}, expected.data());
    const ModelInput input = on_gpu.with_masks(to_device(make_input(removed, ptr), device_));
    const at::Tensor made = input.masks.cpu();
    const auto* bytes = made.const_data_ptr<uint8_t>();
    MaskMeasurement result = {kMaskSamples, half, expected.size(), 0};
    for (uint64_t i = 0; i < expected.size(); ++i) result.differing += bytes[i] != expected[i];
    return result;
  }

  // ---- 2
  Measured<SpeedMeasurement> speed() const {
    if (!trained_.contains(Rung::kernel)) return failure(failed_);
    return SpeedMeasurement{settings_.batch, has_gpu(), trained_.at(Rung::kernel).median_ms(),
                            settings_.usual_ms, settings_.without_usual};
  }

  // ---- 3
  Measured<PredictionMeasurement> predictions() const {
    if (weights_.empty()) return failure("there are no weights: " + run_failed_);
    PredictionMeasurement result;
    std::vector<uint32_t> samples(std::min(settings_.batch, slice_.samples().size()));
    std::iota(samples.begin(), samples.end(), 0);
    result.samples = samples.size();
    try {
      result.plain = plain_predictions(samples);
    } catch (const std::exception& error) {
      throw_if_stopped();
      return NoAnswer{error.what()};
    }
    progress_.begin("predicting on every rung in f64", kScreenRungs.size(), "rungs");
    for (const Rung rung : kScreenRungs) {
      throw_if_stopped();
      try {
        const TemporaryStore store(slice_, rung, settings_.folder);
        Config config = config_;
        config.rung = rung;
        config.store = store.path();
        result.ours[name(rung)] = predict_in_f64(config, weights_, samples, note_);
      } catch (const std::exception& error) {
        throw_if_stopped();
        return failure(fmt::format("rung {} failed: {}", name(rung), error.what()));
      }
      progress_.advance(result.ours.size());
    }
    progress_.end();
    return result;
  }

  std::vector<double> plain_predictions(const std::vector<uint32_t>& samples) const {
    if (!settings_.plain) throw Error("no plain PyTorch to compare with was named");
    PlainRequest request = {slice_.path(), weights_, {}, samples};
    for (const auto& entry : read_config(Run::open(weights_run_).config(), {}).model)
      if (entry.second.IsScalar())  // feature_names is a list: the plain model reads no features
        request.model.push_back(entry.first.as<std::string>() + "=" +
                                entry.second.as<std::string>());
    return settings_.plain(request, progress_);
  }

  // ---- 4
  Measured<MemoryMeasurement> memory() const {
    MemoryMeasurement result;
    result.on_gpu = has_gpu();
    for (const Rung rung : kScreenRungs) {
      std::optional<double>& bytes = result.rungs[name(rung)];
      if (trained_.contains(rung)) bytes = double(bytes_of(trained_.at(rung)));
    }
    const MaskLayout layout(RemovalRules(slice_.graph()), MaskForm::u8);
    result.masks = double((settings_.batch + 1) * layout.stride());
    // After the rungs: what libraries keep for themselves is there already, in all of them alike.
    const fs::path bare = settings_.folder / "bare";
    try {
      write_without_edges(slice_, bare);
      result.model = double(bytes_of(train_on(criteria_config(bare, settings_), Rung::kernel)));
    } catch (const std::exception& error) {
      throw_if_stopped();
      return failure(fmt::format("the model alone cannot be trained: {}", error.what()));
    }
    return result;
  }

  // ---- 5 and 6
  // On a GPU all samples of the screen take part. The weights that come out are those of question
  // 3.
  Measured<RunMeasurement> whole_run() {
    const Screen whole =
        has_gpu() ? write_part(screen_, screen_.samples().size(), settings_.folder / "whole")
                  : slice_;
    RunMeasurement result;
    result.samples = whole.samples().size();
    result.asked_samples = has_gpu() ? screen_.samples().size()
                                     : std::min(settings_.samples, screen_.samples().size());
    result.training = samples_in(whole.split("random"), Part::train).size();
    result.epochs = uint64_t(config_.train.epochs);
    RunListener listener("training, a whole run", progress_);
    const fs::path out = settings_.folder / "run";
    try {
      run(whole.path(), out, listener);
    } catch (const std::exception& error) {
      throw_if_stopped();
      run_failed_ = error.what();
      return failure(run_failed_);
    }
    const Run ended = Run::open(out);
    weights_run_ = out;
    weights_ = ended.checkpoint("last");
    result.trained = listener.trained;
    result.steps = listener.steps;
    result.validated = listener.validated;
    result.has_evaluation = fs::exists(out / "evaluation.json");
    result.seconds = read_train_state(read_checkpoint(weights_), weights_).seconds;
    return result;
  }

  Measured<RepeatMeasurement> repeat() const {
    if (weights_.empty()) return NoAnswer{"the first run failed"};
    try {
      const Safetensors first = has_gpu() ? run_slice("first") : read_safetensors(weights_);
      return compare_weights(first, run_slice("second"));
    } catch (const std::exception& error) {
      throw_if_stopped();
      return failure(fmt::format("a run failed: {}", error.what()));
    }
  }

  static RepeatMeasurement compare_weights(const Safetensors& first, const Safetensors& second) {
    RepeatMeasurement result;
    for (const auto& [key, array] : first.arrays) {
      if (array.dtype() != DType::f32) continue;
      const auto a = array.bytes(), b = second.arrays.at(key).bytes();
      LACUNA_ASSERT(a.size() == b.size());  // one config, one model
      result.values += a.size() / 4;
      for (size_t i = 0; i < a.size(); i += 4)
        result.differing += std::memcmp(&a[i], &b[i], 4) != 0;
    }
    return result;
  }

  Safetensors run_slice(const char* what) const {
    RunListener listener(fmt::format("training, {} run of two", what), progress_);
    const fs::path out = settings_.folder / what;
    run(slice_.path(), out, listener);
    return read_safetensors(Run::open(out).checkpoint("last"));
  }

  void run(const fs::path& screen, const fs::path& out, TrainListener& listener) const {
    TrainRequest request;
    request.out = out;
    request.command = "lacuna bench criteria";
    const RunEnd end = train(criteria_config(screen, settings_), request, listener);
    throw_if_stopped();
    if (end != RunEnd::finished) throw Error("{} was stopped", out.string());
  }

  const CriteriaSettings& settings_;
  const Note& note_;
  Progress& progress_;
  const Screen &screen_, &slice_;
  Config config_;
  at::Device device_;
  std::map<Rung, RungTraining> trained_;
  std::string failed_;  // which of them could not be trained, and why
  fs::path weights_run_, weights_;
  std::string run_failed_;  // why there are none
};

}  // namespace

Config criteria_config(const fs::path& screen, const CriteriaSettings& settings) {
  const std::string text = fmt::format(
      "screen: slice\n"
      "model: {{name: hetero_gin, width: 64, layers: 3, output: global, dropout: 0}}\n"
      "train: {{epochs: 1, batch: {}, precision: {}}}\n"
      "evaluate: {{bootstrap: 100}}\n",
      settings.batch, at::getNumGPUs() > 0 ? "bf16" : "f32");
  Config config = parse_config(text, settings.settings);
  if (config.train.device == "cpu" && config.train.precision == "bf16") {
    std::vector<std::string> in_f32 = settings.settings;
    in_f32.push_back("train.precision=f32");
    config = parse_config(text, in_f32);
  }
  config.screen = screen;
  config.resolved["screen"] = screen.string();
  config.train.batch = int64_t(settings.batch);  // which the answers name
  return config;
}

Screen write_criteria_slice(const Screen& screen, const CriteriaSettings& settings) {
  Screen slice = write_part(screen, settings.samples, settings.folder / "slice");
  const uint64_t training = samples_in(slice.split("random"), Part::train).size();
  if (training < settings.batch)
    throw Error(
        "a batch of {} samples needs more than the {} training samples; give more --samples",
        settings.batch, training);
  return slice;
}

std::vector<Criterion> check_criteria(const Screen& screen, const Screen& slice,
                                      const CriteriaSettings& settings, const Note& note,
                                      Progress& progress) {
  return Criteria(screen, slice, settings, note, progress).check();
}

}  // namespace lacuna
