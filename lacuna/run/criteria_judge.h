// What the measurements of `lacuna bench criteria` (measure/criteria.h) say: yes, no, or no answer.
// Nothing is measured here, so that tests can try every verdict on made-up numbers.
//
// A figure that means nothing never passes: nothing was compared, a number is not finite, all
// predictions are the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lacuna/store/directory.h"

namespace lacuna {

enum class Verdict { pass, fail, not_answered };
std::string_view name(Verdict verdict);  // "pass", "FAIL", "not answered"

struct Criterion {
  int number = 0;
  std::string question = {};
  Verdict verdict = Verdict::not_answered;
  std::string compared = {};      // what with what
  std::string figure = {};        // what was measured, or why nothing was
  std::string bound = {};         // what was asked of the figure
  Json numbers = Json::object();  // those of the figure

  Json to_json() const;
};

// Why there is nothing to judge. is_failure: what should have worked did not, which is a no.
struct NoAnswer {
  std::string why;
  bool is_failure = false;
};
template <class Measurement>
using Measured = std::variant<Measurement, NoAnswer>;

// ---- 1: masks of a GPU beside those of the CPU
struct MaskMeasurement {
  uint64_t samples = 0, most_removed = 0;  // genes that a sample removes
  uint64_t bytes = 0, differing = 0;
};
Criterion judge_masks(const Measured<MaskMeasurement>& measured);

// ---- 2: a training step beside one of the usual form
struct SpeedMeasurement {
  uint64_t batch = 0;
  bool on_gpu = false;
  double ms = 0;                        // a step on rung kernel
  std::optional<double> usual_ms = {};  // of the usual form; nothing: without_usual says why
  std::string without_usual = {};
};
constexpr double kStepsAsked = 10;    // a second, on a GPU
constexpr uint64_t kBatchAsked = 28;  // up to which they are asked for
Criterion judge_speed(const Measured<SpeedMeasurement>& measured);

// ---- 3: predictions beside those of plain PyTorch from the same weights
struct PredictionMeasurement {
  uint64_t samples = 0;
  std::vector<double> plain = {};                        // [S, L], standardised
  std::map<std::string, std::vector<double>> ours = {};  // [S, L] by rung
};
constexpr double kPredictionsWithin = 1e-6;
Criterion judge_predictions(const Measured<PredictionMeasurement>& measured);

// ---- 4: memory beside that of the model alone
struct MemoryMeasurement {
  bool on_gpu = false;
  double model = 0;  // bytes: the same training over a graph without edges
  double masks = 0;  // of a batch and the wild type
  std::map<std::string, std::optional<double>> rungs = {};  // bytes of a training; none: it failed
};
constexpr double kMemoryAsked = 50e6;  // bytes, of rungs kernel and device
Criterion judge_memory(const Measured<MemoryMeasurement>& measured);

// ---- 5: a whole run
struct RunMeasurement {
  uint64_t samples = 0, asked_samples = 0;  // of its screen; that were to take part
  uint64_t training = 0, epochs = 0;        // samples of the training part; asked epochs
  uint64_t trained = 0, steps = 0;          // samples of all epochs that were trained on; updates
  uint64_t validated = 0;                   // samples that the last epoch's validation counts
  bool has_evaluation = false;
  double seconds = 0;
};
Criterion judge_run(const Measured<RunMeasurement>& measured);

// ---- 6: two runs with one seed
struct RepeatMeasurement {
  uint64_t values = 0, differing = 0;  // weights and the optimiser's
};
Criterion judge_repeat(const Measured<RepeatMeasurement>& measured);

}  // namespace lacuna
