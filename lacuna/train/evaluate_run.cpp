#include "lacuna/train/evaluate_run.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/screen/splits/held_out.h"
#include "lacuna/screen/splits/sample_groups.h"
#include "lacuna/train/batch_feed.h"
#include "lacuna/train/mlp_baseline.h"
#include "lacuna/train/predictor.h"

namespace lacuna {
namespace {

void add_mlp(EvaluationInput& input, const ScreenSession& fitting, const ScreenSession& session,
             const std::string& fitted_on, Progress& progress) {
  ScreenSession mlp = train_mlp_baseline(fitting, progress);
  mlp.screen = session.screen;
  mlp.split = session.split;
  mlp.labels = session.labels;
  for (PartPredictions& part : input.parts) {
    const Predictions found = predict_samples(mlp, samples_in(session.split, part.part), 4096);
    part.baselines.push_back({.name = "mlp", .predicted = found.predicted, .fitted_on = fitted_on});
  }
}

}  // namespace

HeldOutUnits units_of(const ScreenSession& session, Part part, std::span<const uint64_t> samples,
                      const Note& note) {
  constexpr uint64_t kFew = 10;
  HeldOutUnits units = held_out_units(session.screen, session.split, samples);
  if (!units.why.empty())
    note(fmt::format("intervals of the {} part resample samples: split '{}': {}", name(part),
                     session.split.name, units.why));
  else if (units.count < kFew)
    note(fmt::format("the {} part has only {} {}: intervals of so few say little{}", name(part),
                     units.count, units.unit,
                     units.count < kFewestUnits ? ", and nothing is told apart by them" : ""));
  return units;
}

std::vector<bool> seen_in(const Screen& screen, const Split& split) {
  return seen_genes(screen.samples(), screen.graph().genes().size(), split);
}

void add_groupings(EvaluationInput& input, const ScreenSession& session,
                   const std::vector<bool>& is_seen) {
  for (PartPredictions& part : input.parts)
    part.groupings =
        group_samples(session.screen.samples(), session.screen.graph(), is_seen, part.samples);
}

void add_all_baselines(EvaluationInput& input, const ScreenSession& fitting,
                       const ScreenSession& session, const std::string& fitted_on,
                       Progress& progress) {
  const Samples& samples = fitting.screen.samples();
  const std::string& column = fitting.config.train.weight_column;
  std::optional<Column> weights;
  if (!column.empty()) weights = weights_of(samples, column, fitting.samples(Part::train));
  add_baselines(input,
                {.samples = samples,
                 .gene_count = fitting.screen.graph().genes().size(),
                 .split = fitting.split,
                 .labels = fitting.labels.columns,
                 .weights = weights ? &*weights : nullptr,
                 .fitted_on = fitted_on,
                 .graph = &fitting.screen.graph()},
                session.screen.samples(), {}, progress);
  add_mlp(input, fitting, session, fitted_on, progress);
}

namespace {

std::vector<Part> parts_of(const ScreenSession& session, const Note& note) {
  std::vector<Part> parts;
  for (const std::string& name : session.config.evaluate.parts) {
    const Part part = part_from_name(name);
    if (session.samples(part).empty())
      note(fmt::format("split '{}' has no {} samples: not evaluated", session.split.name, name));
    else
      parts.push_back(part);
  }
  return parts;
}

// The sets of genes that samples remove, as sorted hashes.
std::vector<uint64_t> removed_sets(const Screen& screen, std::span<const uint32_t> numbers) {
  GeneSets sets(screen);
  std::vector<uint64_t> hashes;
  for (const uint32_t number : numbers)
    hashes.push_back(hash64(std::as_bytes(std::span(sets.read(number)))));
  std::ranges::sort(hashes);
  return hashes;
}

// The samples that a run was trained on.
struct TrainedOn {
  Screen screen;
  Split split;  // of its first samples; those that came since are unused
};

bool is_same_place(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

struct Trained {
  std::optional<TrainedOn> on = {};
  std::string problem = {};  // why it is nothing
};

// Nothing where neither this screen nor the run's own has the samples of then, or none kept them.
Trained find_trained(const Run& run, const ScreenSession& session) {
  if (!keeps_split(run)) return {{}, "an older version made it, and kept no split"};
  const auto look = [&](const Screen& screen) -> std::optional<TrainedOn> {
    std::optional<Split> split = kept_split(run, screen);
    if (!split) return {};
    return TrainedOn{screen, over_all_samples(std::move(*split), screen)};
  };
  // The run's own place first: another screen may remove the same genes and have other labels.
  const fs::path own = read_config(run.config(), {}).screen;
  std::string problem = "the screen that it was trained on is not there any more";
  if (fs::exists(own) && !is_same_place(own, session.screen.path())) {
    try {
      if (auto found = look(Screen::open(own))) return {std::move(found)};
    } catch (const Error& error) {
      problem = fmt::format("the screen that it was trained on cannot be read: {}", error.what());
    }
  }
  if (auto found = look(session.screen)) return {std::move(found)};
  return {{}, problem};
}

// Another screen, or a split that was drawn anew, may hold out what the run was trained on.
void tell_what_was_seen(const Run& run, const ScreenSession& session, std::span<const Part> parts,
                        const Trained& trained, const Note& note) {
  const std::optional<Split> then = kept_split(run, session.screen);
  const uint64_t moved = then ? count_moved(*then, session.split) : 0;
  if (then && moved == 0 && then->parts.size() == session.split.parts.size()) return;
  if (moved > 0)
    note(fmt::format(
        "split '{}' of {} is not the one that the run was trained on: {} of {} samples are in "
        "another part now",
        session.split.name, session.screen.path().string(), with_commas(moved),
        with_commas(then->parts.size())));
  if (!trained.on) {
    note(fmt::format("whether the run was trained on these samples cannot be said: {}",
                     trained.problem));
    return;
  }
  const auto trained_sets =
      removed_sets(trained.on->screen, samples_in(trained.on->split, Part::train));
  for (const Part part : parts) {
    const auto sets = removed_sets(session.screen, session.samples(part));
    const auto seen = std::ranges::count_if(
        sets, [&](uint64_t set) { return std::ranges::binary_search(trained_sets, set); });
    if (seen > 0)
      note(fmt::format(
          "{} of {} {} samples remove the same genes as one that the run was trained on", seen,
          sets.size(), name(part)));
  }
}

// The session, with another screen and split to fit baselines on.
ScreenSession fitting_session(const ScreenSession& session, const TrainedOn& trained) {
  ScreenSession fitting = session;
  fitting.screen = trained.screen;
  fitting.split = trained.split;
  fitting.labels = find_labels(trained.screen.samples(), session.labels);
  return fitting;
}

// Those that are fitted on the training part that is here, where the model was trained on another.
void add_refitted(EvaluationInput& input, const ScreenSession& session, bool is_own_screen,
                  Progress& progress) {
  const fs::path path = session.screen.path();
  const std::string screen = (path.has_filename() ? path : path.parent_path()).filename().string();
  const std::string fitted_on = is_own_screen ? screen + " as it is now" : screen;
  const auto note = [&](const std::string& words) { input.notes.push_back(words); };
  if (session.samples(Part::train).empty())
    return note(
        fmt::format("no baselines are fitted on {}: split '{}' has no training samples there",
                    path.string(), session.split.name));
  ScreenSession fitting = session;
  std::string& column = fitting.config.train.weight_column;
  try {
    if (!column.empty()) weights_of(session.screen.samples(), column, session.samples(Part::train));
  } catch (const Error& error) {
    note(fmt::format("baselines fitted on {} do not weigh its samples: {}", fitted_on,
                     error.what()));
    column.clear();
  }
  const std::vector<PartPredictions> before = input.parts;
  try {
    add_all_baselines(input, fitting, session, fitted_on, progress);
    note(
        fmt::format("baselines named \"(fitted on {})\" are fitted on the training part of split "
                    "'{}' of {}, which is not what the model was trained on",
                    fitted_on, session.split.name, path.string()));
  } catch (const Error& error) {  // they stand beside: what else there is to say is said
    input.parts = before;
    note(fmt::format("no baselines are fitted on {}: {}", path.string(), error.what()));
  }
}

bool has_same_training(const TrainedOn& trained, const ScreenSession& session) {
  return is_same_place(trained.screen.path(), session.screen.path()) &&
         samples_in(trained.split, Part::train) == session.samples(Part::train);
}

// Those fitted on what the model was trained on, and those fitted on what is here, where that is
// something else.
void add_both_baselines(EvaluationInput& input, const ScreenSession& session,
                        const Trained& trained, bool is_own_screen, Progress& progress) {
  // Where an older version kept no split, that of the run's own screen is taken for the run's.
  const bool is_same = trained.on ? has_same_training(*trained.on, session) : is_own_screen;
  if (is_same) return add_all_baselines(input, session, session, "", progress);
  if (trained.on)
    add_all_baselines(input, fitting_session(session, *trained.on), session, "", progress);
  else
    input.notes.push_back(
        fmt::format("no baselines are fitted on the samples that the model was trained on: {}",
                    trained.problem));
  add_refitted(input, session, is_own_screen, progress);
}

}  // namespace

void check_evaluation(const ScreenSession& session) {
  std::set<Part> parts;
  for (const std::string& name : session.config.evaluate.parts) parts.insert(part_from_name(name));
  if (session.config.evaluate.baselines) parts.insert({Part::train, Part::validation});
  for (const Part part : parts)
    check_labels(session.screen.samples(), session.labels, session.samples(part));
}

Evaluation evaluate_run(const Run& run, const EvaluateRequest& asked, const Note& note,
                        Progress& progress, Group& group) {
  EvaluateRequest request = asked;
  request.checkpoint = choose_checkpoint(run, asked.checkpoint);
  ScreenSession session =
      open_run(run, request.checkpoint, request.device, request.screen, note, group);
  return evaluate_session(run, session, request, note, progress);
}

Evaluation evaluate_session(const Run& run, ScreenSession& session, const EvaluateRequest& request,
                            const Note& note, Progress& progress) {
  session.screen.split(session.config.split);  // which predicting alone does not need
  check_evaluation(session);
  const EvaluateOptions& options = session.config.evaluate;
  EvaluationInput input = {.split = session.split.name,
                           .checkpoint = request.checkpoint,
                           .labels = session.labels.names,
                           .bootstrap = int(options.bootstrap)};
  const std::vector<Part> parts = parts_of(session, note);
  const auto keep = [&](const std::string& words) { input.notes.push_back(words); };
  const Trained trained = find_trained(run, session);
  tell_what_was_seen(run, session, parts, trained, keep);
  for (const Part part : parts) {
    Predictions found = predict_samples(session, session.samples(part), 0, progress, note);
    HeldOutUnits units = units_of(session, part, found.samples, keep);
    std::vector<double> ceilings =
        noise_ceilings(session.screen, session.labels.columns, found.samples);
    input.parts.push_back({.part = part,
                           .samples = std::move(found.samples),
                           .predicted = std::move(found.predicted),
                           .measured = std::move(found.measured),
                           .units = std::move(units),
                           .ceilings = std::move(ceilings)});
  }
  add_groupings(input, session,
                trained.on ? seen_in(trained.on->screen, trained.on->split)
                           : seen_in(session.screen, session.split));
  if (!session.group->is_first()) return {};
  session.group = &Group::alone();
  if (options.baselines && !input.parts.empty())
    add_both_baselines(input, session, trained, request.screen.empty(), progress);
  for (const std::string& words : input.notes) note(words);
  const Evaluation evaluation = evaluate(input, progress);
  throw_if_stopped();
  write_evaluation(request.out.empty() ? run.path() : request.out, input, evaluation);
  return evaluation;
}

}  // namespace lacuna
