#include "lacuna/train/criteria.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/stop.h"
#include "lacuna/core/text.h"
#include "lacuna/nn/gene_graph.h"
#include "lacuna/screen/split.h"
#include "lacuna/store/safetensors.h"
#include "lacuna/train/measure_rungs.h"
#include "lacuna/train/measure_step.h"
#include "lacuna/train/run.h"
#include "lacuna/train/trainer.h"

namespace lacuna {
namespace {

constexpr double kStepsAsked = 10;  // a second, of a GPU
constexpr uint64_t kMaskSamples = 28;
constexpr uint64_t kBatchAsked = 28;   // at which they are asked for
constexpr double kWithin = 1e-6;       // of predictions
constexpr double kMemoryAsked = 50e6;  // bytes

// Not answered yet.
Criterion ask(int number, const char* question) {
  return {number, question, Verdict::left_out, ""};
}

class Criteria {
 public:
  Criteria(const Screen& slice, const CriteriaSettings& settings, const Note& note,
           Progress& progress)
      : settings_(settings),
        note_(note),
        progress_(progress),
        slice_(slice),
        config_(criteria_config(slice.path(), settings)),
        device_(choose_device(config_.train.device, note)) {}

  std::vector<Criterion> check() {
    measure_rungs();
    return {masks(), speed(), predictions(), memory(), whole_run(), same_numbers()};
  }

 private:
  bool has_gpu() const { return device_.is_cuda(); }

  // ---- training on every rung, which three of the questions are about
  void measure_rungs() {
    progress_.begin("training on every rung", all_rungs().size(), "rungs");
    uint64_t done = 0;
    for (const Rung rung : all_rungs()) {
      throw_if_stopped();
      try {
        trained_[rung] = train_on(rung);
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

  RungTraining train_on(Rung rung) const {
    const RungTrainingSettings settings = {.folder = settings_.folder,
                                           .rungs = {rung},
                                           .steps = settings_.steps,
                                           .predict = settings_.batch};
    Config config = config_;
    config.train.precision = "f32";
    RungTraining result = lacuna::measure_rungs(config, settings, note_).at(rung);
    if (!has_gpu()) return result;
    // Speed and memory are asked in the precision that one trains in there.
    RungTraining fast = lacuna::measure_rungs(config_, settings, note_).at(rung);
    fast.predicted = std::move(result.predicted);
    return fast;
  }

  // Fails a question that cannot be answered, since a rung that it is about could not be trained.
  bool lacks(Rung rung, Criterion& criterion) const {
    if (trained_.contains(rung)) return false;
    criterion.verdict = Verdict::fail;
    criterion.figure = failed_;
    return true;
  }

  // ---- 1
  Criterion masks() const {
    Criterion result = ask(1, "masks made on the GPU equal the CPU's bit for bit");
    if (!has_gpu()) return without_gpu(result);
    const HeteroGraph& graph = slice_.graph();
    const RemovalRules rules(graph);
    const MaskLayout layout(rules, MaskForm::u8);
    const MaskTable table(rules, layout);
    const GeneGraph on_gpu(graph, device_, nullptr, /*makes_masks=*/true);
    std::vector<int32_t> removed, ptr = {0};
    Random random(slice_.samples().size());
    for (uint64_t b = 0; b < kMaskSamples; ++b) {  // from the wild type to half of all genes
      const uint64_t most = b == 1 ? graph.genes().size() / 2 : b % 9;
      for (uint64_t i = 0; i < most; ++i)
        removed.push_back(int32_t(random.below(graph.genes().size())));
      ptr.push_back(int32_t(removed.size()));
    }
    std::vector<uint8_t> expected(kMaskSamples * layout.stride());
    write_masks(layout, table, {removed, ptr}, expected.data());
    const ModelInput input = on_gpu.with_masks(to_device(make_input(removed, ptr), device_));
    const at::Tensor made = input.masks.cpu();
    const auto* bytes = made.const_data_ptr<uint8_t>();
    uint64_t differ = 0;
    for (uint64_t i = 0; i < expected.size(); ++i) differ += bytes[i] != expected[i];
    result.verdict = differ == 0 ? Verdict::pass : Verdict::fail;
    result.figure =
        fmt::format("{} of {} bytes differ, {} samples that remove 0 to {} genes", differ,
                    with_commas(expected.size()), kMaskSamples, graph.genes().size() / 2);
    return result;
  }

  // ---- 2
  Criterion speed() const {
    Criterion result =
        ask(2, "training is faster than the usual form, and 10 steps a second on a GPU");
    if (lacks(Rung::kernel, result)) return result;
    const double ms = trained_.at(Rung::kernel).median_ms();
    const bool is_asked = has_gpu() && settings_.batch <= kBatchAsked;
    const bool is_enough = !is_asked || 1000 / ms >= kStepsAsked;
    result.figure = fmt::format("{:.2f} steps/s at batch {} on rung kernel ({:.1f} ms)", 1000 / ms,
                                settings_.batch, ms);
    if (!has_gpu()) result.figure += ", no GPU to ask for 10 of";
    if (settings_.usual_ms) {
      const double ratio = *settings_.usual_ms / ms;
      result.figure +=
          fmt::format("; usual form {:.1f} ms, {:.1f} times as long", *settings_.usual_ms, ratio);
      result.verdict = is_enough && ratio > 1 ? Verdict::pass : Verdict::fail;
    } else {
      result.figure += "; usual form left out: " + settings_.without_usual;
      result.verdict = !is_enough ? Verdict::fail : has_gpu() ? Verdict::pass : Verdict::left_out;
    }
    return result;
  }

  // ---- 3
  Criterion predictions() const {
    Criterion result = ask(3, "predictions of all rungs within 1e-6");
    for (const Rung rung : all_rungs())
      if (lacks(rung, result)) return result;
    const auto& reference = trained_.at(Rung::kernel).predicted;
    double largest = 0;
    Rung worst = Rung::kernel;
    for (const auto& [rung, trained] : trained_)
      for (size_t i = 0; i < reference.size(); ++i) {
        const double difference = std::abs(double(trained.predicted[i]) - double(reference[i]));
        if (difference > largest || std::isnan(difference)) largest = difference, worst = rung;
      }
    result.verdict = largest <= kWithin ? Verdict::pass : Verdict::fail;
    result.figure = fmt::format(
        "{} after {} steps in f32, {} samples{}",
        largest == 0 ? "all bits equal" : fmt::format("largest difference {:.1e}", largest),
        warm_steps(device_) + settings_.steps, settings_.batch,
        largest == 0 ? "" : fmt::format(" ({})", name(worst)));
    return result;
  }

  // ---- 4
  Criterion memory() const {
    Criterion result =
        ask(4, "rungs kernel and device need under 50 MB on the GPU beyond the model");
    if (!has_gpu()) return without_gpu(result);
    for (const Rung rung : {Rung::kernel, Rung::device})
      if (lacks(rung, result)) return result;
    const uint64_t batches[] = {settings_.batch};
    const double model =
        double(measure_steps(config_, batches, {.steps = 1}, {}, note_).at(0).peak_bytes);
    const RemovalRules rules(slice_.graph());
    const double masks = double((settings_.batch + 1) * MaskLayout(rules, MaskForm::u8).stride());
    result.verdict = Verdict::pass;
    std::string judged, told;
    for (const Rung rung : all_rungs()) {
      const bool is_judged = rung == Rung::kernel || rung == Rung::device;
      std::string& list = is_judged ? judged : told;
      if (!list.empty()) list += ", ";
      if (!trained_.contains(rung)) {
        list += fmt::format("{} failed", name(rung));
        continue;
      }
      double beyond = double(trained_.at(rung).device_bytes) - model;
      if (rung != Rung::kernel) beyond -= masks;
      list += fmt::format("{} {:.1f} MB", name(rung), beyond / 1e6);
      if (is_judged && beyond >= kMemoryAsked) result.verdict = Verdict::fail;
    }
    // Rungs that send masks hold those of the batches on their way, too: told, not judged.
    result.figure = fmt::format(
        "judged: {}; not judged: {}; all but kernel beyond the masks of a batch, {:.0f} MB; model "
        "{:.0f} MB",
        judged, told, masks / 1e6, model / 1e6);
    return result;
  }

  // ---- 5 and 6
  Criterion whole_run() {
    Criterion result = ask(5, "a full run ends without error");
    try {
      first_ = run("first");
      result.verdict = Verdict::pass;
      result.figure = fmt::format("{} samples, epochs: {}, with baselines", slice_.samples().size(),
                                  config_.train.epochs);
    } catch (const std::exception& error) {
      throw_if_stopped();
      result.verdict = Verdict::fail;
      result.figure = error.what();
    }
    return result;
  }

  Criterion same_numbers() {
    Criterion result = ask(6, "two runs with one seed give the same numbers");
    if (first_.arrays.empty()) {
      result.figure = "the first run failed";
      return result;
    }
    Safetensors second;
    try {
      second = run("second");
    } catch (const std::exception& error) {
      throw_if_stopped();
      result.verdict = Verdict::fail;
      result.figure = std::string("the second run failed: ") + error.what();
      return result;
    }
    uint64_t values = 0, differ = 0;
    for (const auto& [key, array] : first_.arrays) {
      if (array.dtype() != DType::f32) continue;
      const auto a = array.bytes(), b = second.arrays.at(key).bytes();
      LACUNA_ASSERT(a.size() == b.size());  // one config, one model
      values += a.size() / 4;
      for (size_t i = 0; i < a.size(); i += 4) differ += std::memcmp(&a[i], &b[i], 4) != 0;
    }
    result.verdict = differ == 0 ? Verdict::pass : Verdict::fail;
    result.figure = fmt::format("{} of {} weights and optimiser values differ", with_commas(differ),
                                with_commas(values));
    return result;
  }

  Safetensors run(const char* what) {
    TrainListener nobody;
    const fs::path out = settings_.folder / what;
    progress_.begin(fmt::format("training, {} run", what), 1, "runs");
    TrainRequest request;
    request.out = out;
    request.command = "lacuna bench criteria";
    train(config_, request, nobody);
    throw_if_stopped();
    progress_.end();
    return read_safetensors(Run::open(out).checkpoint("last"));
  }

  static Criterion without_gpu(Criterion criterion) {
    criterion.figure = "there is no GPU here";
    return criterion;
  }

  const CriteriaSettings& settings_;
  const Note& note_;
  Progress& progress_;
  const Screen& slice_;
  Config config_;
  at::Device device_;
  std::map<Rung, RungTraining> trained_;
  std::string failed_;  // which of them could not be trained, and why
  Safetensors first_;
};

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "FAIL";
    case Verdict::left_out:
      break;
  }
  return "left out";
}

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
  std::vector<uint64_t> chosen(std::min(settings.samples, screen.samples().size()));
  std::iota(chosen.begin(), chosen.end(), 0);
  const Samples samples = take_samples(screen.samples(), chosen);
  const Screen whole =
      write_screen(settings.folder / "slice",
                   {screen.graph(), samples, {}, {{"command", "lacuna bench criteria"}}});
  add_split(whole.path(), draw_split(whole, "random", {.seed = 1}));
  Screen slice = Screen::open(whole.path());
  const uint64_t training = samples_in(slice.split("random"), Part::train).size();
  if (training < settings.batch)
    throw Error(
        "a batch of {} samples needs more than the {} training samples; give more --samples",
        settings.batch, training);
  return slice;
}

std::vector<Criterion> check_criteria(const Screen& slice, const CriteriaSettings& settings,
                                      const Note& note, Progress& progress) {
  return Criteria(slice, settings, note, progress).check();
}

}  // namespace lacuna
