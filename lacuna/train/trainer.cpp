#include "lacuna/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/printable.h"
#include "lacuna/run/compare/config_difference.h"
#include "lacuna/run/metrics_log.h"
#include "lacuna/run/tensorboard.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/pace/pace.h"

namespace lacuna {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kShowSeconds = 2;  // between two looks at a training whose steps are slow

class Trainer {
 public:
  Trainer(Task& task, const Run& run, const TrainRequest& request, TrainListener& listener)
      : task_(task),
        group_(task.group()),
        options_(task.config().train),
        run_(run),
        request_(request),
        listener_(listener),
        scores_(task.scores()),
        is_cpu_(task.model().parameters().at(0).is_cpu()),
        loop_(task) {
    state_.loader = loop_.place();
    for (const Score& score : scores_) state_.best[score.name] = NAN;
  }

  void resume() {
    if (!run_.has_checkpoint("last")) {  // it was interrupted before its first
      if (group_.is_first()) run_.cut_metrics(0, 0);
      return;
    }
    const fs::path file = run_.checkpoint("last");
    const Safetensors contents = read_checkpoint(file);
    task_.resume(contents, file);
    load_weights(contents, file, task_.model());
    load_optimiser(contents, file, task_.model(), loop_.optimiser());
    const uint64_t samples = state_.loader.samples;
    state_ = read_train_state(contents, file);
    for (const Score& score : scores_) state_.best.try_emplace(score.name, NAN);
    if (state_.loader.samples != samples) start_epoch_anew(samples);
    loop_.go_to(state_.step, state_.loader);
    if (group_.is_first()) run_.cut_metrics(state_.step, state_.epoch);
    listener_.note(fmt::format("going on at step {}, in epoch {}", state_.step, state_.epoch + 1));
  }

  RunEnd train() {
    if (request_.tensorboard && group_.is_first())
      events_.emplace(run_.path() / "tensorboard", int64_t(state_.step) + 1);
    if (!group_.is_alone()) group_.broadcast(task_.model().parameters());
    share_buffers();
    if (state_.step == 0) tell_of_long_warm_up();
    start_ = last_checkpoint_ = shown_ = Clock::now();
    try {
      while (!is_done()) {
        // A run may have been stopped between the last batch of an epoch and its end.
        const bool has_batches = state_.loader.epoch == state_.epoch;
        carried_loss_ = state_.loss_sum;
        loop_.stepper().clear_sums();
        if (has_batches) train_epoch();
        end_epoch();
      }
    } catch (const Stopped&) {
      const Unstoppable checkpoint;
      save("last");
      return RunEnd::stopped;
    } catch (const RankLost&) {  // in a step that nobody has taken
      const Unstoppable checkpoint;
      loop_.stepper().abandon_step();
      save("last");
      throw;
    }
    if (state_.epoch < uint64_t(options_.epochs))
      listener_.note(fmt::format("ended early: no better validation {} for {} epochs",
                                 scores_[0].title, state_.epochs_without_better));
    if (std::isnan(state_.best[scores_[0].name]))
      listener_.note(fmt::format("no epoch has a validation {}: the last weights are the run's",
                                 scores_[0].title));
    return RunEnd::finished;
  }

 private:
  // There are other training samples than before: a place in their order means nothing.
  void start_epoch_anew(uint64_t samples) {
    listener_.note(fmt::format(
        "the split has {} training samples, and had {} before: epoch {} starts from its beginning",
        samples, state_.loader.samples, state_.epoch + 1));
    state_.loader.samples = samples;
    state_.loader.epoch = state_.epoch;
    state_.loader.position = 0;
    state_.loss_sum = 0;
    state_.loss_count = 0;
  }

  // Of a config that was made for more samples.
  void tell_of_long_warm_up() {
    const uint64_t a_step = uint64_t(options_.accumulate),
                   batches = batches_of_epoch(state_.loader);
    const uint64_t steps = (batches + a_step - 1) / a_step * uint64_t(options_.epochs);
    if (uint64_t(options_.warmup_steps) <= steps) return;
    listener_.note(fmt::format(
        "train.warmup_steps is {}, but there are {} steps in all: the learning rate never reaches "
        "train.lr; take fewer, more train.epochs or a smaller train.batch",
        options_.warmup_steps, steps));
  }

  bool is_done() const {
    if (state_.epoch >= uint64_t(options_.epochs)) return true;
    return options_.patience > 0 && state_.epochs_without_better >= uint64_t(options_.patience);
  }

  // With other ranks a stop is agreed on between two steps: nobody waits for one that has left. So
  // is it where a step changes buffers on its way: one that was left could not be taken anew.
  template <class Work>
  auto together(const Work& work) const {
    std::optional<HeldStop> whole;
    if (!group_.is_alone() || !task_.model().buffers().empty()) whole.emplace();
    return work();
  }
  // A step changes the buffers (running statistics) of a rank by its own samples; rank 0's count.
  void share_buffers() {
    if (!group_.is_alone() && !task_.model().buffers().empty())
      group_.broadcast(task_.model().buffers());
  }
  void stop_where_asked() {
    if (group_.is_alone()) return throw_if_stopped();
    if (group_.any(is_stop_asked())) throw Stopped();
  }

  // Where it throws Stopped, state_ is that behind the last whole step.
  void train_epoch() {
    first_step_ = state_.step;
    first_position_ = state_.loader.position;
    const uint64_t before = state_.loss_count - loop_.samples();
    while (together([&] { return loop_.step(); })) {
      share_buffers();
      state_.step = loop_.steps();
      state_.loss_count = before + loop_.samples();
      state_.loader = loop_.place();
      after_step();
    }
    state_.loader = loop_.place();
    check_finite();
  }

  void after_step() {
    const bool is_due = state_.step % uint64_t(options_.log_every) == 0;
    if (is_cpu_ || is_due) check_finite();
    if (!rate_from_) rate_from_ = {Clock::now(), samples_done()};  // behind the first step
    if (is_due)
      log_step();
    else if (seconds_since(shown_) >= kShowSeconds)
      show_step(current_progress());
    if (seconds_since(last_checkpoint_) >= options_.checkpoint_minutes * 60) save("last");
    stop_where_asked();
  }

  void log_step() {
    const Scope scope("logging");
    const TrainProgress progress = show_step(current_progress());
    const double norm = loop_.stepper().last_norm();
    add_metrics(to_json(StepLine{.epoch = state_.epoch,
                                 .step = state_.step,
                                 .loss = progress.loss,
                                 .lr = progress.lr,
                                 .grad_norm = norm,
                                 .samples_per_s = progress.samples_per_s,
                                 .seconds = total_seconds()}));
    add_event("train/loss", progress.loss);
    add_event("train/lr", progress.lr);
    add_event("train/grad_norm", norm);
    if (std::isfinite(progress.samples_per_s))
      add_event("train/samples_per_s", progress.samples_per_s);
  }

  TrainProgress show_step(TrainProgress progress) {
    progress.loss = loop_.stepper().last_loss();
    progress.lr = loop_.lr();
    listener_.step(progress);
    shown_ = Clock::now();
    return progress;
  }

  void add_metrics(const Json& line) {
    if (group_.is_first()) run_.add_metrics(line);
  }

  void add_event(const std::string& tag, double value) {
    if (events_) events_->scalar(tag, int64_t(state_.step), float(value), unix_seconds());
  }

  double total_seconds() const { return state_.seconds + seconds_since(start_); }

  uint64_t samples_done() const { return state_.epoch * state_.loader.samples + state_.loss_count; }

  TrainProgress current_progress() {
    TrainProgress progress;
    progress.step = state_.step;
    progress.epoch = state_.epoch;
    progress.epochs = uint64_t(options_.epochs);
    progress.sample = state_.loss_count;
    progress.samples = state_.loader.samples;
    progress.scores = scores_;
    progress.best = state_.best[scores_[0].name];
    const uint64_t now = samples_done();
    if (!rate_from_) rate_from_ = {Clock::now(), now};
    const double passed = seconds_since(rate_from_->first);
    if (passed > 0 && now > rate_from_->second) {
      progress.samples_per_s = double(now - rate_from_->second) / passed;
      progress.seconds_left =
          double(progress.epochs * progress.samples - now) / progress.samples_per_s;
    }
    return progress;
  }

  void end_epoch() {
    const double train_loss = (carried_loss_ + loop_.stepper().loss_sum()) /
                              double(std::max<uint64_t>(state_.loss_count, 1));
    // An unfinished validation counts for nothing and is done again.
    const ValidationScores validation = together([&] { return task_.validate(); });
    const Unstoppable whole;
    const TrainProgress progress = current_progress();
    ++state_.epoch;
    state_.loss_sum = 0;
    state_.loss_count = 0;
    const std::vector<std::string> better = take_best(validation);
    log_epoch(train_loss, validation);
    // `last` comes last: a crash before it repeats the epoch's rest, and writes the best ones
    // again.
    for (const std::string& name : better) save("best_" + name);
    save("last");
    listener_.epoch(progress, train_loss, validation);
  }

  // The scores that are better than ever, by name.
  std::vector<std::string> take_best(const ValidationScores& validation) {
    std::vector<std::string> better;
    for (size_t i = 0; i < validation.values.size(); ++i) {
      double& best = state_.best[scores_[i].name];
      const double value = validation.values[i];
      if (!std::isfinite(value)) continue;
      const bool is_better =
          std::isnan(best) || (scores_[i].higher_is_better ? value > best : value < best);
      if (!is_better) continue;
      best = value;
      better.push_back(scores_[i].name);
    }
    if (validation.values.empty()) return better;
    const bool is_first = !better.empty() && better[0] == scores_[0].name;
    state_.epochs_without_better = is_first ? 0 : state_.epochs_without_better + 1;
    return better;
  }

  void log_epoch(double train_loss, const ValidationScores& validation) {
    for (const auto& [part, values] : validation.parts.items())
      for (const Score& score : scores_)
        add_event(fmt::format("validation/{}/{}", score.name, part), values.at(score.name));
    Json line = to_json(EpochLine{.epoch = state_.epoch - 1,
                                  .step = state_.step,
                                  .train_loss = train_loss,
                                  .seconds = total_seconds()});
    line["validation"] = validation.parts;
    add_metrics(line);
    add_event("train/epoch_loss", train_loss);
    if (events_) events_->flush();
  }

  void save(const std::string& name) {
    const Scope scope("logging");
    check_finite();
    TrainState state = state_;
    state.seconds = total_seconds();
    if (state.loss_count > 0) state.loss_sum = carried_loss_ + loop_.stepper().loss_sum();
    Json about = {{"fingerprint", task_.fingerprint().to_json()}};
    about.update(task_.checkpoint());
    if (group_.is_first())
      write_checkpoint(run_.checkpoint(name), task_.model(), loop_.optimiser(), state, about);
    last_checkpoint_ = Clock::now();
  }

  // A loss that is not finite ends the run. Every epoch ends with this question, so the step is one
  // of the present epoch since this process took it up.
  void check_finite() {
    const int64_t bad = loop_.stepper().first_bad_step();
    if (bad < 0) return;
    const uint64_t a_step = uint64_t(options_.accumulate);
    const uint64_t first = first_position_ + (uint64_t(bad) - first_step_) * a_step;
    const uint64_t end = std::min(first + a_step, batches_of_epoch(state_.loader));
    std::vector<uint64_t> samples;
    for (uint64_t position = first; position < end; ++position) {
      const auto more = loop_.feed().samples(state_.epoch, position);
      samples.insert(samples.end(), more.begin(), more.end());
    }
    const fs::path file = run_.path() / "bad_batch.json";
    Json details = {{"step", bad}, {"epoch", state_.epoch}, {"samples", samples}};
    details.update(task_.describe(samples));
    if (group_.is_first()) write_sealed_json(file, details);
    throw Error(
        "the loss is not finite at step {} (epoch {}), samples {}{}; the batch is saved in {}; try "
        "a smaller train.lr, train.clip, or train.precision=f32, or look at these samples' labels",
        bad, state_.epoch + 1,
        fmt::join(std::span(samples).first(std::min<size_t>(samples.size(), 8)), ", "),
        samples.size() > 8 ? ", ..." : "", file.string());
  }

  Task& task_;
  Group& group_;
  const TrainOptions& options_;
  const Run& run_;
  const TrainRequest& request_;
  TrainListener& listener_;
  std::vector<Score> scores_;
  bool is_cpu_;
  Loop loop_;
  uint64_t first_step_ = 0, first_position_ = 0;  // of this epoch, in this process
  std::optional<EventWriter> events_;
  TrainState state_;
  double carried_loss_ = 0;  // of this epoch, from before the run was resumed
  Clock::time_point start_, last_checkpoint_, shown_;
  std::optional<std::pair<Clock::time_point, uint64_t>> rate_from_;
};

Json run_info(Task& task, const TrainRequest& request) {
  int64_t parameters = 0;
  for (const at::Tensor& parameter : task.model().parameters()) parameters += parameter.numel();
  Json info = {{"command", request.command},
               {"lacuna", request.version},
               {"torch", TORCH_VERSION},
               {"device", task.model().parameters().at(0).device().str()},
               {"threads", at::get_num_threads()}};
  info.update(task.description());
  info.update({{"parameters", parameters}, {"started", utc_now()}});
  return info;
}

// A run goes on as it was begun; only its data and its store may have moved.
Config config_to_resume(const Run& run, const Config& asked) {
  Config config = read_config(run.config(), {});
  const std::string differs = config_difference(config, asked);
  if (!differs.empty())
    throw Error("{} was begun with another config: {}; ask for the same, or choose another --out",
                run.path().string(), differs);
  take_places(config, asked);
  return config;
}

// The trainer is gone afterwards, and what a recorded step holds on the device with it.
RunEnd train_all(Task& task, const Run& run, bool goes_on, const TrainRequest& request,
                 TrainListener& listener) {
  Trainer trainer(task, run, request, listener);
  if (goes_on) trainer.resume();
  return trainer.train();
}

// What rank 0 does with the run's files before the first step.
void begin(const Run& run, Task& task, const std::string& settings, bool has_trained,
           const TrainRequest& request) {
  if (read_text(run.config()) != sealed_yaml(settings))
    write_text_atomically(run.config(), sealed_yaml(settings));
  task.keep(run);
  Json info = has_trained ? task.description() : run_info(task, request);
  info.update({{"status", "running"}, {"message", ""}});
  run.update(info);
}

// "; about 2 h 10 min here: ...", for the first line. Where memory does not suffice the training
// says so.
std::string estimate(Task& task, const Note& note) {
  try {
    const Pace pace = measure_pace(task);
    if (const std::string shorter = advice(pace); !shorter.empty()) note(shorter);
    return "; " + words(pace);
  } catch (const c10::OutOfMemoryError&) {
    return "";
  }
}

// Throws Stopped where the run was not begun yet. Only rank 0 holds the run's lock.
RunEnd open_and_train(const Config& asked, const TrainRequest& request, TrainListener& listener,
                      Group& group, const TaskOpener& open) {
  const Note note = [&](const std::string& words) { listener.note(words); };
  std::optional<Run> run;
  if (group.is_first() && request.resume && fs::exists(request.out / "run.json"))
    run = Run::resume(request.out);
  const bool goes_on = group.first_says(run.has_value());
  if (goes_on && !run) run = Run::open(request.out);
  const Config config = goes_on ? config_to_resume(*run, asked) : asked;
  if (goes_on && run->info().value("status", "") == "finished") {
    note(fmt::format("{} is finished; there is nothing to resume", request.out.string()));
    return RunEnd::finished;
  }
  if (!goes_on && group.is_first()) Run::check_free(request.out);
  const auto task = open({.config = config,
                          .note = note,
                          .progress = listener.progress(),
                          .group = group,
                          .run = goes_on ? &*run : nullptr});
  const bool has_trained = goes_on && run->has_checkpoint("last");
  task->check(has_trained ? &*run : nullptr, note);
  settle_threads(*task, goes_on ? &*run : nullptr, request.measure, note);
  const bool is_timed = request.measure && !goes_on && group.is_alone();
  const std::string how_long = is_timed ? estimate(*task, note) : "";
  make_paths_absolute(task->config());
  const std::string settings = to_yaml(task->config());
  if (!goes_on && group.is_first()) run = Run::create(request.out, settings);
  group.barrier();
  if (!run) run = Run::open(request.out);
  const auto update = [&](const Json& members) {
    if (group.is_first()) run->update(members);
  };
  // What ended the run is told even where it cannot be written down: the disk may be full.
  const auto note_failure = [&](const char* message) {
    try {
      update({{"status", "failed"}, {"ended", utc_now()}, {"message", printable(message)}});
    } catch (const std::exception&) {
    }
  };
  try {
    if (group.is_first()) begin(*run, *task, settings, has_trained, request);
    group.barrier();
    listener.begin(task->words() + how_long);
    const RunEnd end = train_all(*task, *run, goes_on, request, listener);
    group.barrier();  // rank 0 has written the checkpoints
    if (end == RunEnd::finished) task->evaluate(*run, note, listener.progress());
    update({{"status", end == RunEnd::finished ? "finished" : "stopped"}, {"ended", utc_now()}});
    return end;
  } catch (const Stopped&) {  // behind the training, whose checkpoint stands
    update({{"status", "stopped"}, {"ended", utc_now()}});
    return RunEnd::stopped;
  } catch (const c10::OutOfMemoryError& error) {
    note_failure(error.what());
    throw Error("the GPU has too little memory for train.batch {}: {}; take a smaller one, or auto",
                task->config().train.batch, error.what());
  } catch (const std::exception& error) {
    note_failure(error.what());
    throw;
  }
}

}  // namespace

RunEnd train(const Config& config, const TrainRequest& request, TrainListener& listener,
             Group& group, const TaskOpener& open) {
  TrainListener nobody;
  try {
    return open_and_train(config, request, group.is_first() ? listener : nobody, group, open);
  } catch (const Stopped&) {
    return RunEnd::stopped;
  }
}

}  // namespace lacuna
