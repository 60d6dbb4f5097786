#include "lacuna/train/predict.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/text/nearest.h"
#include "lacuna/run/predict/predict_candidates.h"
#include "lacuna/run/predict/prediction_file.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/session.h"

namespace lacuna {
namespace {

void check(const PredictRequest& request) {
  const int kinds = !request.samples.empty() + request.all_pairs + !request.all_pairs_with.empty() +
                    !request.all_triples_with.empty();
  if (kinds != 1)
    throw UsageError(
        "one of --samples, --all-pairs, --all-pairs-with and --all-triples-with is needed");
  if (!request.genes.empty() && !request.samples.empty())
    throw UsageError("--genes goes with --all-pairs, --all-pairs-with and --all-triples-with");
  if (request.top == 0 && (request.lowest || !request.by.empty()))
    throw UsageError("{} goes with --top", request.lowest ? "--lowest" : "--by");
  check_prediction_path(request.out);
}

std::vector<uint32_t> find_genes(const std::vector<std::string>& names, const Names& genes,
                                 const std::string& option) {
  std::vector<uint32_t> found;
  for (const std::string& name : names) found.push_back(find_gene(genes, name, option));
  return found;
}

std::unique_ptr<Candidates> make_candidates(const PredictRequest& request, const Names& genes) {
  if (!request.samples.empty()) return listed_samples(request.samples, genes);
  const auto pool =
      request.genes.empty() ? all_genes(genes.size()) : listed_genes(request.genes, genes);
  if (request.all_pairs) return all_pairs(pool);
  if (!request.all_pairs_with.empty())
    return all_pairs_with(find_genes(request.all_pairs_with, genes, "--all-pairs-with"), pool);
  return all_triples_with(find_genes(request.all_triples_with, genes, "--all-triples-with"), pool);
}

// The sets of genes that the session's screen has with one of its labels.
MeasuredSets measured_sets(const ScreenSession& session) {
  const Samples& samples = session.screen.samples();
  std::vector<uint64_t> places;
  for (const std::string& label : session.labels.names) {
    const auto at = std::find(samples.label_names.begin(), samples.label_names.end(), label);
    if (at != samples.label_names.end())
      places.push_back(uint64_t(at - samples.label_names.begin()));
  }
  if (places.empty())
    throw Error(
        "--unmeasured: {} has none of the run's labels, so nothing is known of what was "
        "measured",
        session.screen.path().string());
  return MeasuredSets(samples, session.screen.graph().genes().size(), places);
}

std::unique_ptr<Candidates> choose_candidates(const PredictRequest& request,
                                              const ScreenSession& session) {
  const Names& genes = session.screen.graph().genes().names;
  const auto make = [&] { return make_candidates(request, genes); };
  if (!request.unmeasured) return make();
  auto candidates = unmeasured(make, measured_sets(session));
  if (candidates->size() == 0)
    throw Error("--unmeasured leaves none of the {} samples: the screen has them all",
                make()->size());
  return candidates;
}

// The place of the label that the best are ranked by.
uint64_t find_label(const std::vector<std::string>& labels, const std::string& by) {
  if (by.empty() && labels.size() > 1)
    throw UsageError("the run has labels {}; say with --by which one --top is about",
                     fmt::join(labels, ", "));
  if (by.empty()) return 0;
  const auto place = std::find(labels.begin(), labels.end(), by);
  if (place == labels.end())
    throw Error("the run has no label '{}'; did you mean '{}'?", by, nearest_word(by, labels));
  return uint64_t(place - labels.begin());
}

}  // namespace

PredictResult predict(const Run& run, const PredictRequest& request, Progress& progress,
                      const std::function<void(const std::string&)>& note) {
  check(request);
  const std::string checkpoint = choose_checkpoint(run, request.checkpoint);
  ScreenSession session = open_run(run, checkpoint, request.device, request.screen, note);
  const Names& genes = session.screen.graph().genes().names;
  const auto candidates = shard_of(choose_candidates(request, session), request.shard);
  PredictionTask task = {
      .out = request.out,
      .genes = genes,
      .labels = session.labels.names,
      .batch = request.batch ? request.batch : prediction_batch(session),
      .top = {},
  };
  if (request.top > 0)
    task.top = {.count = request.top,
                .label = find_label(task.labels, request.by),
                .lowest = request.lowest};
  Predictor predictor(session, note);
  const uint64_t written = predict_candidates(
      *candidates,
      [&](std::span<const int32_t> removed, std::span<const int32_t> ptr) {
        return predictor.predict(removed, ptr);
      },
      task, progress);
  return {.asked = candidates->size(), .written = written, .checkpoint = checkpoint};
}

}  // namespace lacuna
