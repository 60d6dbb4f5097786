#include "lacuna/train/evaluate_run.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/stop.h"
#include "lacuna/core/text.h"
#include "lacuna/load/screen_batch.h"
#include "lacuna/screen/sample_groups.h"
#include "lacuna/train/kept_split.h"
#include "lacuna/train/mlp_baseline.h"
#include "lacuna/train/predictor.h"

namespace lacuna {
namespace {

std::vector<Part> parts_of(const Session& session, const Note& note) {
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

// The sets that the run was trained on; nothing where neither this screen nor the run's own has the
// samples of then.
std::optional<std::vector<uint64_t>> trained_sets(const Run& run, const Session& session) {
  const auto sets_of = [&](const Screen& screen) -> std::optional<std::vector<uint64_t>> {
    const std::optional<Split> split = kept_split(run, screen);
    if (!split) return {};
    return removed_sets(screen, samples_in(*split, Part::train));
  };
  if (auto sets = sets_of(session.screen)) return sets;
  const fs::path own = read_config(run.config(), {}).screen;
  if (!fs::exists(own)) return {};
  return sets_of(Screen::open(own));
}

// Another screen, or a split that was drawn anew, may hold out what the run was trained on.
void tell_what_was_seen(const Run& run, const Session& session, std::span<const Part> parts,
                        const Note& note) {
  const std::optional<Split> then = kept_split(run, session.screen);
  const uint64_t moved = then ? count_moved(*then, session.split) : 0;
  if (then && moved == 0 && then->parts.size() == session.split.parts.size()) return;
  if (moved > 0)
    note(fmt::format(
        "split '{}' of {} is not the one that the run was trained on: {} of {} samples are in "
        "another part now",
        session.split.name, session.screen.path().string(), with_commas(moved),
        with_commas(then->parts.size())));
  const auto trained = trained_sets(run, session);
  if (!trained) {
    note(fmt::format("whether the run was trained on these samples cannot be said: {}",
                     keeps_split(run) ? "the screen that it was trained on is not there any more"
                                      : "an older version made it, and kept no split"));
    return;
  }
  for (const Part part : parts) {
    const auto sets = removed_sets(session.screen, session.samples(part));
    const auto seen = std::ranges::count_if(
        sets, [&](uint64_t set) { return std::ranges::binary_search(*trained, set); });
    if (seen > 0)
      note(fmt::format(
          "{} of {} {} samples remove the same genes as one that the run was trained on", seen,
          sets.size(), name(part)));
  }
}

void add_mlp(EvaluationInput& input, Session& session, TrainListener& listener) {
  Session mlp = train_mlp_baseline(session, listener.progress());
  for (PartPredictions& part : input.parts) {
    const Predictions found = predict_samples(mlp, samples_in(session.split, part.part), 4096);
    part.baselines.push_back({.name = "mlp", .predicted = found.predicted});
  }
}

}  // namespace

void check_evaluation(const Session& session) {
  std::set<Part> parts;
  for (const std::string& name : session.config.evaluate.parts) parts.insert(part_from_name(name));
  if (session.config.evaluate.baselines) parts.insert({Part::train, Part::validation});
  for (const Part part : parts)
    check_labels(session.screen.samples(), session.labels, session.samples(part));
}

Evaluation evaluate_run(const Run& run, const EvaluateRequest& request, TrainListener& listener) {
  const auto note = [&](const std::string& words) { listener.note(words); };
  const std::string checkpoint = choose_checkpoint(run, request.checkpoint);
  Session session = open_run(run, checkpoint, request.device, request.screen, note);
  session.screen.split(session.config.split);  // which predicting alone does not need
  check_evaluation(session);
  const EvaluateOptions& options = session.config.evaluate;
  EvaluationInput input = {.split = session.split.name,
                           .checkpoint = checkpoint,
                           .labels = session.labels.names,
                           .bootstrap = int(options.bootstrap)};
  const std::vector<Part> parts = parts_of(session, note);
  tell_what_was_seen(run, session, parts,
                     [&](const std::string& words) { input.notes.push_back(words); });
  for (const Part part : parts) {
    Predictions found = predict_samples(session, session.samples(part), 0, listener.progress());
    input.parts.push_back(
        {part, std::move(found.samples), std::move(found.predicted), std::move(found.measured)});
  }
  if (options.baselines && !input.parts.empty()) {
    add_baselines(input, session.screen.samples(), session.screen.graph().genes().size(),
                  session.split, session.labels.columns);
    add_mlp(input, session, listener);
  }
  for (const std::string& words : input.notes) note(words);
  const Evaluation evaluation = evaluate(input);
  throw_if_stopped();
  write_evaluation(request.out.empty() ? run.path() : request.out, input, evaluation);
  return evaluation;
}

}  // namespace lacuna
