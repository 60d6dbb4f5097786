#include "lacuna/train/explain/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/text/nearest.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/run/explanation/unmeasured.h"
#include "lacuna/run/predict/predict_candidates.h"
#include "lacuna/screen/candidates.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/session.h"

namespace lacuna {
namespace {

constexpr size_t kNeighboursShown = 4;

using Sets = std::vector<std::vector<uint32_t>>;

uint64_t label_number(const ScreenSession& session, const std::string& asked) {
  const auto& names = session.labels.names;
  if (asked.empty() && names.size() > 1)
    throw UsageError("the run has labels {}; say with --label which one is explained",
                     fmt::join(names, ", "));
  if (asked.empty()) return 0;
  const auto place = std::find(names.begin(), names.end(), asked);
  if (place == names.end())
    throw Error("the run has no label '{}'; did you mean '{}'?", asked, nearest_word(asked, names));
  return uint64_t(place - names.begin());
}

// At most `most` samples of the part that is scored, ascending.
std::vector<uint32_t> scored_samples(const ScreenSession& session, Part& part, uint64_t most,
                                     uint64_t seed) {
  std::vector<uint32_t> samples = session.samples(part = Part::test);
  if (samples.empty()) samples = session.samples(part = Part::validation);
  if (samples.empty())
    throw Error("split '{}' of {} has neither test nor validation samples to score",
                session.split.name, session.screen.path().string());
  if (samples.size() <= most) return samples;
  Random random(seed);
  shuffle(samples, random);
  samples.resize(most);
  std::sort(samples.begin(), samples.end());
  return samples;
}

std::vector<Metrics> scores_of(const Predictions& predictions, size_t labels) {
  std::vector<Metrics> scores;
  for (size_t l = 0; l < labels; ++l)
    scores.push_back(compute_metrics(label_column(predictions.predicted, labels, l),
                                     label_column(predictions.measured, labels, l)));
  return scores;
}

// Predictions of a label for sets of genes: heard(set, value), in order.
template <class Heard>
void predict_sets(ScreenSession& session, const Sets& sets, uint64_t label, Progress& progress,
                  const Note& note, const Heard& heard) {
  if (sets.empty()) return;
  const uint64_t batch = prediction_batch(session), labels = session.labels.size();
  Predictor predictor(session, note);
  progress.begin("predicting unmeasured samples", sets.size(), "samples");
  for (size_t first = 0; first < sets.size(); first += batch) {
    const size_t end = std::min<size_t>(sets.size(), first + batch);
    std::vector<int32_t> removed, ptr = {0};
    for (size_t i = first; i < end; ++i) {
      removed.insert(removed.end(), sets[i].begin(), sets[i].end());
      ptr.push_back(int32_t(removed.size()));
    }
    const std::vector<float> predicted = predictor.predict(removed, ptr);  // [B, L]
    for (size_t i = first; i < end; ++i) heard(i, predicted[(i - first) * labels + label]);
    progress.advance(end);
  }
  progress.end();
}

// One list of the strongest: their genes by number, beside what is written of them.
struct StrongList {
  std::vector<ExplainedSample>* samples;
  Sets genes;
};

void add_list(BestPredictions& best, const Names& names, std::vector<ExplainedSample>& samples,
              std::vector<StrongList>& lists) {
  StrongList list = {&samples, {}};
  for (const BestSample& sample : best.take()) {
    ExplainedSample explained;
    for (const uint32_t gene : sample.genes) explained.genes.push_back(names[gene]);
    explained.predicted = double(sample.predicted.at(0));
    samples.push_back(std::move(explained));
    list.genes.push_back(sample.genes);
  }
  lists.push_back(std::move(list));
}

StrongestPredictions find_strongest(ScreenSession& session, const std::string& with,
                                    const ExplainRequest& request, uint64_t label,
                                    Progress& progress, const Note& note, BestPredictions& lowest,
                                    BestPredictions& highest) {
  const Names& names = session.screen.graph().genes().names;
  std::optional<uint32_t> given;
  if (!with.empty()) given = find_gene(names, with, "--gene");
  const UnmeasuredSets found =
      unmeasured_sets(session.screen, given, request.candidates, request.seed);
  predict_sets(session, found.sets, label, progress, note, [&](size_t i, float predicted) {
    lowest.add(found.sets[i], {&predicted, 1});
    highest.add(found.sets[i], {&predicted, 1});
  });
  return {.with = given ? names[*given] : "",
          .candidates = found.sets.size(),
          .possible = found.possible};
}

void add_neighbours(const ScreenSession& session, uint64_t label, std::vector<StrongList>& lists) {
  std::vector<uint32_t> genes;
  for (const StrongList& list : lists)
    for (const auto& set : list.genes) genes.insert(genes.end(), set.begin(), set.end());
  const GeneNeighbours neighbours(session.screen.graph(), genes);
  const SamplesOfGenes samples_of(session.screen);
  for (StrongList& list : lists)
    for (size_t i = 0; i < list.genes.size(); ++i)
      (*list.samples)[i].neighbours =
          measured_neighbours(session.screen, session.split, samples_of, neighbours, list.genes[i],
                              session.labels.columns[label], kNeighboursShown);
}

}  // namespace

Explanation explain(const Run& run, const ExplainRequest& request, Progress& progress,
                    const std::function<void(const std::string&)>& note) {
  const std::string checkpoint = choose_checkpoint(run, request.checkpoint);
  ScreenSession session = open_run(run, checkpoint, request.device, request.screen, note);
  session.screen.split(session.config.split);  // throws where the screen has none of its name
  const uint64_t label = label_number(session, request.label);
  const size_t labels = session.labels.size();
  Part part = Part::test;
  const auto samples = scored_samples(session, part, request.samples, request.seed);

  Explanation result = {.checkpoint = checkpoint,
                        .part = std::string(name(part)),
                        .screen = session.screen.path().string(),
                        .samples = samples.size(),
                        .labels = session.labels.names,
                        .networks = session.graph.types(),
                        .with_all = {},
                        .without = {},
                        .label = session.labels.names[label]};
  result.with_all = scores_of(predict_samples(session, samples, 0, progress, note), labels);

  std::vector<std::string> genes = {""};
  genes.insert(genes.end(), request.genes.begin(), request.genes.end());
  std::vector<StrongList> lists;
  result.strongest.reserve(genes.size());  // lists point into it
  for (const std::string& with : genes) {
    BestPredictions lowest(request.top, 0, true), highest(request.top, 0, false);
    result.strongest.push_back(
        find_strongest(session, with, request, label, progress, note, lowest, highest));
    const Names& names = session.screen.graph().genes().names;
    add_list(lowest, names, result.strongest.back().lowest, lists);
    add_list(highest, names, result.strongest.back().highest, lists);
  }
  add_neighbours(session, label, lists);

  for (const std::string& network : result.networks) {
    ScreenSession other = without_network(session, network);
    result.without.push_back(scores_of(predict_samples(other, samples, 0, progress, note), labels));
    for (StrongList& list : lists)
      predict_sets(other, list.genes, label, progress, note, [&](size_t i, float predicted) {
        ExplainedSample& sample = (*list.samples)[i];
        sample.change.push_back(sample.predicted - double(predicted));
      });
  }
  return result;
}

}  // namespace lacuna
