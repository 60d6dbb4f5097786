#include "lacuna/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/printable.h"
#include "lacuna/run/compare/config_difference.h"
#include "lacuna/run/evaluation/validation.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/run/run.h"
#include "lacuna/run/schedule.h"
#include "lacuna/run/tensorboard.h"
#include "lacuna/train/auto_batch.h"
#include "lacuna/train/bad_batch.h"
#include "lacuna/train/batch_feed.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/evaluate_run.h"
#include "lacuna/train/optimiser.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/session.h"
#include "lacuna/train/step.h"
#include "lacuna/train/training_feed.h"

namespace lacuna {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

class Trainer {
 public:
  Trainer(Session& session, const Run& run, const TrainRequest& request, TrainListener& listener)
      : session_(session),
        options_(session.config.train),
        run_(run),
        request_(request),
        listener_(listener),
        optimiser_(*session.model, options_),
        stepper_(*session.model, optimiser_, options_),
        loader_(training_source(session), training_order(session)),
        feed_(loader_, session.labels, training_feed(session)),
        steps_per_epoch_((loader_.order().batches() + uint64_t(options_.accumulate) - 1) /
                         uint64_t(options_.accumulate)) {
    state_.loader = loader_.state();
  }

  void resume() {
    if (!run_.has_checkpoint("last")) {  // it was interrupted before its first
      run_.cut_metrics(0, 0);
      return;
    }
    const fs::path file = run_.checkpoint("last");
    const Safetensors contents = read_checkpoint(file);
    check_fingerprint(read_fingerprint(contents, file), session_, file);
    load_weights(contents, file, *session_.model);
    load_optimiser(contents, file, *session_.model, optimiser_);
    session_.labels = find_labels(session_.screen.samples(), read_label_scale(contents, file));
    state_ = read_train_state(contents, file);
    if (state_.loader.samples != loader_.order().samples()) start_epoch_anew();
    loader_.seek(state_.loader);
    run_.cut_metrics(state_.step, state_.epoch);
    listener_.note(fmt::format("going on at step {}, in epoch {}", state_.step, state_.epoch + 1));
  }

  RunEnd train() {
    if (request_.tensorboard)
      events_.emplace(run_.path() / "tensorboard", int64_t(state_.step) + 1);
    start_ = last_checkpoint_ = Clock::now();
    try {
      while (!is_done()) {
        // A run may have been stopped between the last batch of an epoch and its end.
        const bool has_batches = state_.loader.epoch == state_.epoch;
        carried_loss_ = state_.loss_sum;
        stepper_.clear_sums();
        if (has_batches) train_epoch();
        end_epoch();
      }
    } catch (const Stopped&) {
      const Unstoppable checkpoint;
      stepper_.abandon_step();
      save("last");
      return RunEnd::stopped;
    }
    if (state_.epoch < uint64_t(options_.epochs))
      listener_.note(fmt::format("ended early: no better validation Pearson for {} epochs",
                                 state_.epochs_without_better));
    if (!run_.has_checkpoint("best_pearson"))
      listener_.note("no epoch has a validation Pearson: the last weights are the run's");
    return RunEnd::finished;
  }

 private:
  // The screen has other training samples than before: a place in their order means nothing.
  void start_epoch_anew() {
    listener_.note(fmt::format(
        "the split has {} training samples, and had {} before: epoch {} starts from its beginning",
        loader_.order().samples(), state_.loader.samples, state_.epoch + 1));
    state_.loader.samples = loader_.order().samples();
    state_.loader.epoch = state_.epoch;
    state_.loader.position = 0;
    state_.loss_sum = 0;
    state_.loss_count = 0;
  }

  bool is_done() const {
    if (state_.epoch >= uint64_t(options_.epochs)) return true;
    return options_.patience > 0 && state_.epochs_without_better >= uint64_t(options_.patience);
  }

  // Where it throws Stopped, state_ is that behind the last whole step.
  void train_epoch() {
    session_.model->train();
    first_step_ = state_.step;
    first_position_ = state_.loader.position;
    const uint64_t batches = loader_.order().batches();
    int64_t index = 0;     // of the batch within its step
    uint64_t samples = 0;  // of the step, so far
    while (const DeviceBatch* batch = feed_.next()) {
      const bool is_last = index + 1 == options_.accumulate || feed_.state().position == batches;
      const double lr = learning_rate(options_, state_.step, steps_per_epoch_);
      stepper_.run(*batch, state_.step, index, is_last, state_.epoch, lr,
                   double(batch->size()) / double(samples_of_step(index)));
      samples += uint64_t(batch->size());
      index = is_last ? 0 : index + 1;
      if (!is_last) continue;
      ++state_.step;
      state_.loss_count += std::exchange(samples, 0);
      state_.loader = feed_.state();
      after_step(lr);
    }
    state_.loader = feed_.state();
    check_finite();
  }

  // Of the step whose batch `index` was given out last. The last step of an epoch may have fewer.
  uint64_t samples_of_step(int64_t index) const {
    const uint64_t first =
        (feed_.state().position - 1 - uint64_t(index)) * uint64_t(options_.batch);
    return std::min(uint64_t(options_.batch * options_.accumulate),
                    loader_.order().samples() - first);
  }

  void after_step(double lr) {
    const bool is_cpu = session_.device().is_cpu();
    const bool is_due = state_.step % uint64_t(options_.log_every) == 0;
    if (is_cpu || is_due) check_finite();
    if (is_due) log_step(lr);
    if (seconds_since(last_checkpoint_) >= options_.checkpoint_minutes * 60) save("last");
    throw_if_stopped();
  }

  void log_step(double lr) {
    const Scope scope("logging");
    TrainProgress progress = current_progress();
    progress.loss = stepper_.last_loss();
    progress.lr = lr;
    const double norm = stepper_.last_norm();
    run_.add_metrics({{"kind", "step"},
                      {"epoch", state_.epoch},
                      {"step", state_.step},
                      {"loss", number(progress.loss)},
                      {"lr", lr},
                      {"grad_norm", number(norm)},
                      {"samples_per_s", number(progress.samples_per_s)},
                      {"seconds", total_seconds()}});
    add_event("train/loss", progress.loss);
    add_event("train/lr", lr);
    add_event("train/grad_norm", norm);
    if (std::isfinite(progress.samples_per_s))
      add_event("train/samples_per_s", progress.samples_per_s);
    listener_.step(progress);
  }

  void add_event(const std::string& tag, double value) {
    if (events_) events_->scalar(tag, int64_t(state_.step), float(value), unix_seconds());
  }

  double total_seconds() const { return state_.seconds + seconds_since(start_); }

  TrainProgress current_progress() {
    TrainProgress progress;
    progress.step = state_.step;
    progress.epoch = state_.epoch;
    progress.epochs = uint64_t(options_.epochs);
    progress.sample = state_.loss_count;
    progress.samples = loader_.order().samples();
    progress.best_pearson = std::isfinite(state_.best_pearson) ? state_.best_pearson : NAN;
    const uint64_t now = state_.epoch * progress.samples + state_.loss_count;
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
    const double train_loss =
        (carried_loss_ + stepper_.loss_sum()) / double(std::max<uint64_t>(state_.loss_count, 1));
    // An unfinished validation counts for nothing and is done again.
    const Predictions found = predict_samples(session_, session_.samples(Part::validation), 0);
    const Unstoppable whole;
    const Validation validation = validate(found.predicted, found.measured, session_.labels);
    const TrainProgress progress = current_progress();
    ++state_.epoch;
    state_.loss_sum = 0;
    state_.loss_count = 0;
    const bool better_pearson = take_best(validation);
    log_epoch(train_loss, validation.labels);
    // `last` comes last: a crash before it repeats the epoch's rest, and writes the best ones
    // again.
    if (better_pearson) save("best_pearson");
    if (better_mse_) save("best_mse");
    save("last");
    listener_.epoch(progress, train_loss, validation.labels);
  }

  bool take_best(const Validation& validation) {
    if (validation.labels.empty()) return false;
    better_mse_ = validation.mse < state_.best_mse;
    if (better_mse_) state_.best_mse = validation.mse;
    const bool is_better = validation.pearson > state_.best_pearson;
    if (is_better) state_.best_pearson = validation.pearson;
    state_.epochs_without_better = is_better ? 0 : state_.epochs_without_better + 1;
    return is_better;
  }

  void log_epoch(double train_loss, const std::vector<Metrics>& validation) {
    Json by_label = Json::object();
    for (size_t l = 0; l < validation.size(); ++l) {
      const Metrics& metrics = validation[l];
      by_label[session_.labels.names[l]] = {{"count", metrics.count},
                                            {"pearson", number(metrics.pearson)},
                                            {"spearman", number(metrics.spearman)},
                                            {"mse", number(metrics.mse)}};
      add_event("validation/pearson/" + session_.labels.names[l], metrics.pearson);
      add_event("validation/mse/" + session_.labels.names[l], metrics.mse);
    }
    run_.add_metrics({{"kind", "epoch"},
                      {"epoch", state_.epoch - 1},
                      {"step", state_.step},
                      {"train_loss", number(train_loss)},
                      {"validation", by_label},
                      {"seconds", total_seconds()}});
    add_event("train/epoch_loss", train_loss);
    if (events_) events_->flush();
  }

  void save(const char* name) {
    const Scope scope("logging");
    check_finite();
    TrainState state = state_;
    state.seconds = total_seconds();
    if (state.loss_count > 0) state.loss_sum = carried_loss_ + stepper_.loss_sum();
    YAML::Emitter settings;
    settings << session_.config.model;
    write_checkpoint(run_.checkpoint(name), *session_.model, optimiser_, state,
                     {session_.labels, session_.fingerprint, settings.c_str()});
    last_checkpoint_ = Clock::now();
  }

  // A loss that is not finite ends the run. Every epoch ends with this question, so the step is one
  // of the present epoch since this process took it up.
  void check_finite() {
    const int64_t bad = stepper_.first_bad_step();
    if (bad < 0) return;
    const uint64_t epoch = state_.epoch, a_step = uint64_t(options_.accumulate);
    const uint64_t first = first_position_ + (uint64_t(bad) - first_step_) * a_step;
    std::vector<uint64_t> places, samples;
    for (uint64_t position = first; position < first + a_step; ++position) {
      if (position >= loader_.order().batches()) break;
      loader_.order().batch(epoch, position, places);
      RungBatch batch;
      loader_.source().fill(places, batch);
      const auto numbers = batch.samples().samples();
      samples.insert(samples.end(), numbers.begin(), numbers.end());
    }
    throw_bad_batch(session_, run_.path(), uint64_t(bad), epoch, samples);
  }

  Session& session_;
  const TrainOptions& options_;
  const Run& run_;
  const TrainRequest& request_;
  TrainListener& listener_;
  Optimiser optimiser_;
  Stepper stepper_;
  Loader<RungSource> loader_;
  BatchFeed feed_;
  uint64_t steps_per_epoch_;
  uint64_t first_step_ = 0, first_position_ = 0;  // of this epoch, in this process
  std::optional<EventWriter> events_;
  TrainState state_;
  double carried_loss_ = 0;  // of this epoch, from before the run was resumed
  bool better_mse_ = false;
  Clock::time_point start_, last_checkpoint_;
  std::optional<std::pair<Clock::time_point, uint64_t>> rate_from_;
};

std::string describe(const Session& session) {
  return fmt::format("{} with {} parameters on {}", session.config.model["name"].as<std::string>(),
                     session.model->parameter_count(), session.device().str());
}

Json screen_info(const Session& session) {
  uint64_t edges = 0;
  for (const EdgeType* type : session.screen.graph().gene_edges()) edges += type->size();
  return {{"path", fs::absolute(session.screen.path()).string()},
          {"fingerprint", session.fingerprint.to_json()},
          {"samples", session.screen.samples().size()},
          {"genes", session.screen.graph().genes().size()},
          {"edges", edges}};
}

Json run_info(const Session& session, const TrainRequest& request) {
  return {{"command", request.command},
          {"lacuna", request.version},
          {"torch", TORCH_VERSION},
          {"device", session.device().str()},
          {"threads", at::get_num_threads()},
          {"screen", screen_info(session)},
          {"parameters", session.model->parameter_count()},
          {"started", utc_now()}};
}

// What can be seen before the first step: a run should not fail behind its last one.
void check_labels_of_parts(const Session& session, const Note& note) {
  const auto numbers = session.samples(Part::validation);
  const std::string& weights = session.config.train.weight_column;
  if (!weights.empty()) weights_of(session.screen.samples(), weights, session.samples(Part::train));
  check_labels(session.screen.samples(), session.labels, numbers);
  check_evaluation(session);
  const auto measured = measured_labels(session.screen.samples(), session.labels.columns,
                                        std::vector<uint64_t>(numbers.begin(), numbers.end()));
  const auto unjudged = labels_without_spread(measured, session.labels);
  if (!numbers.empty() && !unjudged.empty())
    note(fmt::format(
        "the validation part has fewer than two different values of label {}: no Pearson of it",
        fmt::join(unjudged, ", ")));
  if (session.config.train.patience == 0 || unjudged.size() < session.labels.size()) return;
  throw Error("train.patience is {}, but split '{}' has no validation samples{}; set it to 0",
              session.config.train.patience, session.split.name,
              numbers.empty() ? "" : " whose labels differ");
}

// A store may hold fewer samples than the screen.
void check_store(const Session& session) {
  for (const Part part : {Part::train, Part::validation})
    if (const auto numbers = session.samples(part); !numbers.empty())
      session.masks.check_samples(session.screen, numbers.front(), numbers.back());
}

// A run goes on as it was begun; only its screen and its store may have moved.
Config config_to_resume(const Run& run, const Config& asked) {
  Config config = read_config(run.config(), {});
  const std::string differs = config_difference(config, asked);
  if (!differs.empty())
    throw Error("{} was begun with another config: {}; ask for the same, or choose another --out",
                run.path().string(), differs);
  config.screen = asked.screen;
  config.store = asked.store;
  config.resolved["screen"] = config.screen.string();
  config.resolved["store"] = config.store.string();
  return config;
}

void check_screen_is_there(const Run& run, const Config& config) {
  if (!fs::exists(config.screen))
    throw Error(
        "there is no screen {}, which {} is trained on; if it has moved: `lacuna train {} --set "
        "screen=DIRECTORY --resume --out {}`",
        config.screen.string(), run.path().string(), run.config().string(), run.path().string());
}

// What ended the run is told even where it cannot be written down: the disk may be full.
void note_failure(const Run& run, const char* message) {
  try {
    run.update({{"status", "failed"}, {"ended", utc_now()}, {"message", printable(message)}});
  } catch (const std::exception&) {
  }
}

// The trainer is gone afterwards, and what a recorded step holds on the device with it.
RunEnd train_all(Session& session, const Run& run, bool goes_on, const TrainRequest& request,
                 TrainListener& listener) {
  Trainer trainer(session, run, request, listener);
  if (goes_on) trainer.resume();
  return trainer.train();
}

// Throws Stopped where the run was not begun yet.
RunEnd open_and_train(const Config& asked, const TrainRequest& request, TrainListener& listener) {
  const auto note = [&](const std::string& words) { listener.note(words); };
  std::optional<Run> run;
  if (request.resume && fs::exists(request.out / "run.json")) run = Run::resume(request.out);
  const bool goes_on = run.has_value();
  const Config config = goes_on ? config_to_resume(*run, asked) : asked;
  if (goes_on && run->info().value("status", "") == "finished") {
    note(fmt::format("{} is finished; there is nothing to resume", request.out.string()));
    return RunEnd::finished;
  }
  if (goes_on)
    check_screen_is_there(*run, config);
  else
    Run::check_free(request.out);
  Session session = open_session(config, note, listener.progress());
  if (session.config.train.batch == 0) find_batch(session, note);
  check_labels_of_parts(session, note);
  check_store(session);
  const bool has_trained = goes_on && run->has_checkpoint("last");
  if (has_trained) check_kept_split(*run, session.screen, session.split);
  make_paths_absolute(session.config);
  const std::string settings = to_yaml(session.config);
  if (!goes_on) run = Run::create(request.out, settings);
  try {
    if (read_text(run->config()) != sealed_yaml(settings))
      write_text_atomically(run->config(), sealed_yaml(settings));
    keep_split(*run, session.screen, session.split);
    Json info = has_trained ? Json{{"screen", screen_info(session)}} : run_info(session, request);
    info.update({{"status", "running"}, {"message", ""}});
    run->update(info);
    listener.begin(describe(session));
    const RunEnd end = train_all(session, *run, goes_on, request, listener);
    if (end == RunEnd::finished) evaluate_run(*run, {}, listener);
    run->update(
        {{"status", end == RunEnd::finished ? "finished" : "stopped"}, {"ended", utc_now()}});
    return end;
  } catch (const Stopped&) {  // behind the training, whose checkpoint stands
    run->update({{"status", "stopped"}, {"ended", utc_now()}});
    return RunEnd::stopped;
  } catch (const c10::OutOfMemoryError& error) {
    note_failure(*run, error.what());
    throw Error("the GPU has too little memory for train.batch {}: {}; take a smaller one, or auto",
                session.config.train.batch, error.what());
  } catch (const std::exception& error) {
    note_failure(*run, error.what());
    throw;
  }
}

}  // namespace

RunEnd train(const Config& config, const TrainRequest& request, TrainListener& listener) {
  try {
    return open_and_train(config, request, listener);
  } catch (const Stopped&) {
    return RunEnd::stopped;
  }
}

}  // namespace lacuna
