#include "lacuna/run/criteria_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

Verdict yes_if(bool good) { return good ? Verdict::pass : Verdict::fail; }

// The measurement, or null with the criterion answered as the reason says.
template <class Measurement>
const Measurement* measurement_of(const Measured<Measurement>& measured, Criterion& criterion) {
  if (const auto* none = std::get_if<NoAnswer>(&measured)) {
    criterion.verdict = none->is_failure ? Verdict::fail : Verdict::not_answered;
    criterion.figure = none->why;
    return nullptr;
  }
  return &std::get<Measurement>(measured);
}

// Of a criterion that asks for no difference at all. unit: what was compared, "bytes"; more: words
// behind the figure.
void judge_equal(Criterion& result, const char* key, const char* unit, uint64_t compared,
                 uint64_t differing, const std::string& more = "") {
  result.verdict = yes_if(compared > 0 && differing == 0);
  result.figure = fmt::format("{} of {} {} differ{}", with_commas(differing), with_commas(compared),
                              unit, more);
  result.numbers = {{key, compared}, {"differing", differing}};
}

// NaN where one of them is.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "FAIL";
    case Verdict::not_answered:
      break;
  }
  return "not answered";
}

Json Criterion::to_json() const {
  return {{"number", number},     {"question", question}, {"verdict", name(verdict)},
          {"compared", compared}, {"figure", figure},     {"bound", bound},
          {"numbers", numbers}};
}

Criterion judge_masks(const Measured<MaskMeasurement>& measured) {
  Criterion result = {.number = 1,
                      .question = "are masks made on the GPU those of the CPU, bit for bit?",
                      .compared = "masks made on the GPU with those made on the CPU",
                      .bound = "no byte differs"};
  const MaskMeasurement* masks = measurement_of(measured, result);
  if (masks)
    judge_equal(result, "bytes", "bytes", masks->bytes, masks->differing,
                fmt::format(", {} samples that remove up to {} genes", masks->samples,
                            masks->most_removed));
  return result;
}

Criterion judge_speed(const Measured<SpeedMeasurement>& measured) {
  Criterion result = {
      .number = 2,
      .question = "is training faster than the usual form, and 10 steps a second on a GPU?",
      .compared = "a training step on rung kernel with one of the usual form in PyG",
      .bound = fmt::format("shorter; on a GPU {} steps/s at batch {}", kStepsAsked, kBatchAsked)};
  const SpeedMeasurement* speed = measurement_of(measured, result);
  if (!speed) return result;
  const double steps = 1000 / speed->ms;
  const bool is_asked = speed->on_gpu && speed->batch <= kBatchAsked;
  const bool is_enough = std::isfinite(steps) && (!is_asked || steps >= kStepsAsked);
  result.figure =
      fmt::format("{:.2f} steps/s at batch {} ({:.1f} ms)", steps, speed->batch, speed->ms);
  if (!is_asked)
    result.figure += fmt::format(", of which {} are not asked {}", kStepsAsked,
                                 speed->on_gpu ? "at so large a batch" : "without a GPU");
  result.numbers = {{"ms", speed->ms}, {"batch", speed->batch}};
  if (!speed->usual_ms) {
    result.figure += "; the usual form is not there: " + speed->without_usual;
    result.verdict = is_enough ? Verdict::not_answered : Verdict::fail;
    return result;
  }
  const double ratio = *speed->usual_ms / speed->ms;
  result.figure +=
      fmt::format("; usual form {:.1f} ms, {:.1f} times as long", *speed->usual_ms, ratio);
  result.numbers["usual_ms"] = *speed->usual_ms;
  result.verdict = yes_if(is_enough && ratio > 1);
  return result;
}

Criterion judge_predictions(const Measured<PredictionMeasurement>& measured) {
  Criterion result = {
      .number = 3,
      .question = "are the predictions of every rung those of plain PyTorch?",
      .compared =
          "each rung's predictions with those of plain PyTorch with explicit edge masks; "
          "the same weights, f64, standardised labels",
      .bound = fmt::format("no difference above {:.0e}", kPredictionsWithin)};
  const PredictionMeasurement* predictions = measurement_of(measured, result);
  if (!predictions) return result;
  const std::vector<double>& plain = predictions->plain;
  double largest = predictions->ours.empty() ? std::numeric_limits<double>::quiet_NaN() : 0;
  std::string worst;
  for (const auto& [rung, ours] : predictions->ours) {
    const double difference = largest_difference(ours, plain);
    result.numbers[rung] = difference;
    if (!(difference <= largest)) largest = difference, worst = rung;
    if (std::isnan(largest)) break;
  }
  const auto [least, most] = std::ranges::minmax_element(plain);
  const double spread = plain.empty() ? 0 : *most - *least;
  result.numbers["largest"] = largest;
  result.numbers["spread"] = spread;
  result.figure = fmt::format(
      "largest difference {:.1e}{}, {} rungs, {} samples whose predictions "
      "lie up to {:.1e} apart",
      largest, worst.empty() ? "" : fmt::format(" ({})", worst), predictions->ours.size(),
      predictions->samples, spread);
  result.verdict = yes_if(!plain.empty() && largest <= kPredictionsWithin);
  if (result.verdict == Verdict::pass && spread <= kPredictionsWithin) {
    result.verdict = Verdict::not_answered;
    result.figure += ": too near each other for the bound to tell";
  }
  return result;
}

Criterion judge_memory(const Measured<MemoryMeasurement>& measured) {
  Criterion result = {
      .number = 4,
      .question = "do rungs kernel and device need under 50 MB on the GPU beyond the model?",
      .compared =
          "the peak of a training with that of the model alone: the same training over a "
          "graph without edges, so weights, optimiser and activations, and no plan; all "
          "but kernel beyond the masks of a batch, too",
      .bound = fmt::format("under {} on rungs kernel and device", megabytes(kMemoryAsked))};
  const MemoryMeasurement* memory = measurement_of(measured, result);
  if (!memory) return result;
  const std::set<std::string> asked = {"kernel", "device"};
  bool is_good = memory->model > 0;
  std::string judged, told;
  for (const auto& [rung, peak] : memory->rungs) {
    const bool is_judged = memory->on_gpu && asked.contains(rung);
    std::string& list = is_judged ? judged : told;
    if (!list.empty()) list += ", ";
    if (!peak) {
      list += rung + " failed";
      is_good = is_good && !is_judged;
      continue;
    }
    const double beyond = *peak - memory->model - (rung == "kernel" ? 0 : memory->masks);
    list += fmt::format("{} {}", rung, megabytes(beyond));
    result.numbers[rung] = beyond;
    if (is_judged && !(beyond < kMemoryAsked)) is_good = false;
  }
  for (const std::string& rung : asked) is_good = is_good && memory->rungs.contains(rung);
  result.numbers["model"] = memory->model;
  result.numbers["masks"] = memory->masks;
  const std::string beside = fmt::format("masks of a batch {}, model {}", megabytes(memory->masks),
                                         megabytes(memory->model));
  if (!memory->on_gpu) {  // resident memory of a process is not what a rung asked for
    result.figure = fmt::format("there is no GPU here; resident on this CPU: {}; {}", told, beside);
    return result;
  }
  result.figure = fmt::format("judged: {}; not judged: {}; {}", judged, told, beside);
  result.verdict = yes_if(is_good);
  return result;
}

Criterion judge_run(const Measured<RunMeasurement>& measured) {
  Criterion result = {.number = 5,
                      .question = "does a full run end without error?",
                      .compared =
                          "a whole `train` (epochs, validation, "
                          "evaluation) with what it was asked for",
                      .bound = "every training sample of every epoch, validated and evaluated"};
  const RunMeasurement* run = measurement_of(measured, result);
  if (!run) return result;
  const bool is_whole = run->training > 0 && run->epochs > 0 &&
                        run->samples == run->asked_samples &&
                        run->trained == run->training * run->epochs && run->steps > 0;
  result.verdict = yes_if(is_whole && run->validated > 0 && run->has_evaluation);
  result.figure = fmt::format(
      "{} of {} samples; trained on {} in {} steps ({} training samples, epochs: {}), validated on "
      "{}, {}; {:.0f} s",
      with_commas(run->samples), with_commas(run->asked_samples), with_commas(run->trained),
      with_commas(run->steps), with_commas(run->training), run->epochs, with_commas(run->validated),
      run->has_evaluation ? "evaluated" : "not evaluated", run->seconds);
  result.numbers = {{"samples", run->samples},     {"asked_samples", run->asked_samples},
                    {"training", run->training},   {"epochs", run->epochs},
                    {"trained", run->trained},     {"steps", run->steps},
                    {"validated", run->validated}, {"seconds", run->seconds}};
  return result;
}

Criterion judge_repeat(const Measured<RepeatMeasurement>& measured) {
  Criterion result = {.number = 6,
                      .question = "do two runs with one seed give the same numbers?",
                      .compared = "weights and optimiser values at the end of two runs",
                      .bound = "no value differs in a bit"};
  const RepeatMeasurement* repeat = measurement_of(measured, result);
  if (repeat)
    judge_equal(result, "values", "weights and optimiser values", repeat->values,
                repeat->differing);
  return result;
}

}  // namespace lacuna
