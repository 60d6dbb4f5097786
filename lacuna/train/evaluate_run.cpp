#include "lacuna/train/evaluate_run.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/load/screen_batch.h"
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

// The removed genes of samples, as sorted hashes.
std::vector<uint64_t> removed_sets(const Samples& samples, std::span<const uint32_t> numbers) {
  const RemovedReader reader(samples);
  std::vector<uint32_t> genes;
  std::vector<uint64_t> hashes;
  for (const uint32_t number : numbers) {
    reader.read(number, genes);
    std::ranges::sort(genes);
    hashes.push_back(hash64(std::as_bytes(std::span(genes))));
  }
  std::ranges::sort(hashes);
  return hashes;
}

// Another screen has a split of its own, which may hold out what the run was trained on.
void tell_what_was_seen(const Run& run, const Session& session, std::span<const Part> parts,
                        const Note& note) {
  const Config own = read_config(run.config(), {});
  std::vector<uint64_t> trained;
  if (fs::exists(own.screen)) {
    const Screen screen = Screen::open(own.screen);
    const auto split = std::ranges::find(screen.splits(), own.split, &Split::name);
    if (split != screen.splits().end())
      trained = removed_sets(screen.samples(), samples_in(*split, Part::train));
  }
  if (trained.empty())
    note(
        fmt::format("whether the run was trained on these samples cannot be said: {} with its "
                    "split '{}' is not there any more",
                    own.screen.string(), own.split));
  for (const Part part : parts) {
    const auto sets = removed_sets(session.screen.samples(), session.samples(part));
    const auto seen = std::ranges::count_if(
        sets, [&](uint64_t set) { return std::ranges::binary_search(trained, set); });
    if (seen > 0)
      note(fmt::format(
          "{} of {} {} samples remove the same genes as one that the run was trained on", seen,
          sets.size(), name(part)));
  }
}

void add_mlp(EvaluationInput& input, Session& session, TrainListener& listener,
             const std::function<bool()>& stop) {
  Session mlp = train_mlp_baseline(session, listener.progress(), stop);
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

std::optional<Evaluation> evaluate_run(const Run& run, const EvaluateRequest& request,
                                       TrainListener& listener) {
  const auto note = [&](const std::string& words) { listener.note(words); };
  const auto stop = [&] { return request.stop && request.stop->load(); };
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
  if (request.screen.empty())
    tell_of_another_split(run, session, note);
  else
    tell_what_was_seen(run, session, parts, note);
  for (const Part part : parts) {
    Predictions found =
        predict_samples(session, session.samples(part), 0, listener.progress(), stop);
    if (stop()) return {};
    input.parts.push_back(
        {part, std::move(found.samples), std::move(found.predicted), std::move(found.measured)});
  }
  if (options.baselines && !input.parts.empty()) {
    add_baselines(input, session.screen.samples(), session.screen.graph().genes().size(),
                  session.split, session.labels.columns);
    add_mlp(input, session, listener, stop);
  }
  if (stop()) return {};
  const Evaluation evaluation = evaluate(input);
  write_evaluation(request.out.empty() ? run.path() : request.out, input, evaluation);
  return evaluation;
}

}  // namespace lacuna
