#include "lacuna/train/pace/pace.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/train/loop.h"

namespace lacuna {
namespace {

constexpr double kLongStep = 1;  // seconds
constexpr double kLongTraining = 3600;
constexpr double kWorthwhile = 0.9;  // of the time with fewer threads

// Holds copies of weights and buffers, and puts them back.
class KeptState {
 public:
  explicit KeptState(torch::nn::Module& model) : model_(model) {
    for (const at::Tensor& tensor : model.parameters()) keep(tensor);
    for (const at::Tensor& tensor : model.buffers()) keep(tensor);
  }
  ~KeptState() {
    const at::NoGradGuard none;
    for (auto& [tensor, copy] : kept_) tensor.copy_(copy);
    model_.zero_grad();
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  void keep(const at::Tensor& tensor) { kept_.emplace_back(tensor, tensor.detach().clone()); }
  torch::nn::Module& model_;
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;  // the model's own, a copy
};

bool is_on_cpu(Task& task) { return task.model().parameters().at(0).is_cpu(); }

std::string step_text(double seconds) {
  return seconds < 1 ? format_digits(1e3 * seconds) + " ms" : format_digits(seconds) + " s";
}

// 1, half of all, all.
std::vector<int> thread_counts(int all) {
  std::vector<int> counts = {1};
  if (all / 2 > 1) counts.push_back(all / 2);
  if (all > 1) counts.push_back(all);
  return counts;
}

int measured_threads(Task& task, const Note& note) {
  const int all = at::get_num_threads();
  note("timing steps, to choose the number of threads");
  std::string timed;
  const int fastest = fastest_threads(thread_counts(all), [&](int threads) {
    at::set_num_threads(threads);
    const double seconds = time_step(task);
    timed += fmt::format("{}{} with {}", timed.empty() ? "" : ", ", step_text(seconds), threads);
    return seconds;
  });
  note(fmt::format("a step takes {}: {} thread{} (train.compute_threads says another number)",
                   timed, fastest, fastest == 1 ? "" : "s"));
  return fastest;
}

}  // namespace

double time_step(Task& task) {
  LACUNA_ASSERT(task.group().is_alone());
  const KeptState kept(task.model());
  Loop loop(task, /*may_record=*/false);
  loop.run(1);  // a model may make something in its first step, for seconds
  double fastest = loop.time(1) / 1e3;
  for (int i = 0; i < 2 && fastest < kLongStep; ++i)
    fastest = std::min(fastest, loop.time(1) / 1e3);
  return fastest;
}

int fastest_threads(const std::vector<int>& candidates, const std::function<double(int)>& time) {
  int best = candidates.at(0);
  double shortest = time(best);
  for (size_t i = 1; i < candidates.size(); ++i) {
    const double seconds = time(candidates[i]);
    if (seconds >= kWorthwhile * shortest) continue;
    best = candidates[i];
    shortest = seconds;
  }
  return best;
}

void settle_threads(Task& task, const Run* run, bool may_measure, const Note& note) {
  if (!is_on_cpu(task)) return;
  Config& config = task.config();
  const bool is_screen = config.kind() == DataKind::screen;
  int64_t threads = config.train.compute_threads;
  if (threads == 0 && run && run->info().contains("threads"))
    threads = run->info().at("threads").get<int64_t>();
  if (threads == 0) {
    const bool is_settled = !may_measure || !is_screen || !task.group().is_alone() ||
                            std::getenv("OMP_NUM_THREADS") || at::get_num_threads() == 1;
    threads = is_settled ? at::get_num_threads() : measured_threads(task, note);
  }
  at::set_num_threads(int(threads));
  if (!is_screen) return;
  config.train.compute_threads = threads;
  config.resolved["train"]["compute_threads"] = threads;
}

Pace measure_pace(Task& task) {
  const TrainOptions& options = task.config().train;
  const uint64_t batches = batches_of_epoch(task.training()->state());
  const uint64_t a_step = uint64_t(options.accumulate);
  return {.step_seconds = time_step(task),
          .steps_an_epoch = (batches + a_step - 1) / a_step,
          .epochs = uint64_t(options.epochs),
          .is_cpu = is_on_cpu(task),
          .threads = at::get_num_threads()};
}

std::string words(const Pace& pace) {
  const std::string threads =
      pace.is_cpu ? fmt::format(", {} thread{}", pace.threads, pace.threads == 1 ? "" : "s") : "";
  return fmt::format("about {} here: {} a step, {} steps an epoch, {} epochs{}",
                     format_duration(pace.seconds()), step_text(pace.step_seconds),
                     with_commas(pace.steps_an_epoch), with_commas(pace.epochs), threads);
}

std::string advice(const Pace& pace) {
  if (pace.seconds() < kLongTraining) return "";
  return fmt::format(
      "this takes hours{}. Shorter: {}fewer train.epochs or a train.patience that ends it early; "
      "some of the samples (`lacuna subset SCREEN FEW --random 10000`); a smaller model "
      "(model.width, model.layers; model.merge=sum)",
      pace.is_cpu ? " on a CPU" : "", pace.is_cpu ? "a GPU (train.device=cuda); " : "");
}

}  // namespace lacuna
