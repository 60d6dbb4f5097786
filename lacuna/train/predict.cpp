#include "lacuna/train/predict.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/nearest.h"
#include "lacuna/run/ensemble/baseline_member.h"
#include "lacuna/run/ensemble/ensemble.h"
#include "lacuna/run/ensemble/ensemble_weights.h"
#include "lacuna/run/evaluation/metrics.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/run/predict/merge_predictions.h"
#include "lacuna/run/predict/predict_candidates.h"
#include "lacuna/run/predict/prediction_file.h"
#include "lacuna/train/batch_feed.h"
#include "lacuna/train/group.h"
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

// A run's model, or one of those of an ensemble, or a baseline: then there is no session.
struct OpenedMember {
  std::string checkpoint;
  fs::path file;                           // of the checkpoint
  std::unique_ptr<ScreenSession> session;  // stays where it is: the predictor refers to it
  std::unique_ptr<Predictor> predictor;
  std::vector<double> weights;  // [L]
  std::unique_ptr<BaselineMember> baseline = nullptr;
};

OpenedMember open_member(const Run& run, const PredictRequest& request,
                         const std::function<void(const std::string&)>& note, Group& group) {
  OpenedMember member = {choose_checkpoint(run, request.checkpoint), {}, nullptr, nullptr, {}};
  member.file = run.checkpoint(member.checkpoint);
  member.session = std::make_unique<ScreenSession>(
      open_run(run, member.checkpoint, request.device, request.screen, note, group));
  member.predictor = std::make_unique<Predictor>(*member.session, note);
  member.weights.assign(member.session->labels.size(), 1.0);
  return member;
}

// labels: of the first run
OpenedMember open_baseline(const EnsembleMember& member, const LabelScale& labels,
                           const std::function<void(const std::string&)>& note) {
  const Run run = Run::open(member.run);
  const Config config = read_config(run.config(), {});
  if (!fs::exists(config.screen))
    throw Error("baseline '{}' is fitted once more to predict, but there is no screen {} any more",
                member.baseline, config.screen.string());
  const Screen screen = Screen::open(config.screen);
  const std::optional<Split> then = kept_split(run, screen);
  if (!then)
    throw Error(
        "baseline '{}' is fitted once more to predict, but {} has not the samples any more that {} "
        "was trained on; make an ensemble of runs alone to predict with",
        member.baseline, screen.path().string(), member.run.string());
  note(fmt::format("fits baseline '{}' once more, to what {} was trained on", member.baseline,
                   member.run.string()));
  BaselineFit fit = {.name = member.baseline,
                     .screen = screen,
                     .split = over_all_samples(*then, screen),
                     .labels = find_labels(screen.samples(), labels).columns};
  if (!config.train.weight_column.empty())
    fit.weights = weights_of(screen.samples(), config.train.weight_column,
                             samples_in(fit.split, Part::train));
  OpenedMember opened = {{}, {}, nullptr, nullptr, member.weights};
  opened.baseline = std::make_unique<BaselineMember>(std::move(fit));
  return opened;
}

std::vector<OpenedMember> open_members(const Run& run, const PredictRequest& request,
                                       const std::function<void(const std::string&)>& note,
                                       Group& group) {
  std::vector<OpenedMember> opened;
  for (const EnsembleMember& member : read_ensemble(run.path())) {
    if (!member.baseline.empty()) {  // an ensemble's runs come first
      opened.push_back(open_baseline(member, opened.at(0).session->labels, note));
      continue;
    }
    opened.push_back(open_member(Run::open(member.run), request, note, group));
    if (member.weights.size() != opened.back().weights.size())
      throw Error("{} has {} labels, but {} had {} when the ensemble was made; make it anew",
                  member.run.string(), opened.back().weights.size(), member.name,
                  member.weights.size());
    opened.back().weights = member.weights;
  }
  if (opened.empty()) opened.push_back(open_member(run, request, note, group));
  return opened;
}

// The labels, and of an ensemble behind them "LABEL spread" each.
std::vector<std::string> column_names(const ScreenSession& session, bool with_spread) {
  std::vector<std::string> names = session.labels.names;
  if (with_spread)
    for (const std::string& label : session.labels.names) names.push_back(label + " spread");
  return names;
}

// [B, L] of a run's model, as many samples at a time as it is usually given: where a baseline is a
// member, B is large.
std::vector<float> predict_in_pieces(const OpenedMember& member, uint64_t batch,
                                     std::span<const int32_t> removed,
                                     std::span<const int32_t> ptr) {
  const size_t samples = ptr.size() - 1;
  if (samples <= batch) return member.predictor->predict(removed, ptr);
  std::vector<float> all;
  for (size_t first = 0; first < samples; first += batch) {
    const size_t count = std::min<size_t>(batch, samples - first);
    std::vector<int32_t> own(ptr.begin() + std::ptrdiff_t(first),
                             ptr.begin() + std::ptrdiff_t(first + count + 1));
    const int32_t start = own.front(), size = own.back() - start;
    for (int32_t& place : own) place -= start;
    const auto piece = member.predictor->predict(removed.subspan(size_t(start), size_t(size)), own);
    all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}

// [B, L] of a single model; of several, means and spreads: [B, 2 L]
std::vector<float> predict_all(const std::vector<OpenedMember>& members, uint64_t batch,
                               std::span<const int32_t> removed, std::span<const int32_t> ptr) {
  std::vector<std::vector<float>> predicted;  // [M][B, L]
  for (const OpenedMember& member : members)
    predicted.push_back(member.baseline ? member.baseline->predict(removed, ptr)
                                        : predict_in_pieces(member, batch, removed, ptr));
  if (members.size() == 1) return predicted[0];
  const size_t labels = members[0].weights.size(), samples = ptr.size() - 1;
  std::vector<float> both(samples * 2 * labels);
  for (size_t l = 0; l < labels; ++l) {
    std::vector<std::vector<float>> columns;
    std::vector<double> weights;
    for (size_t m = 0; m < members.size(); ++m) {
      columns.push_back(label_column(predicted[m], labels, l));
      weights.push_back(members[m].weights[l]);
    }
    const MeanAndSpread found = combine(columns, weights);
    for (size_t s = 0; s < samples; ++s) {
      both[s * 2 * labels + l] = found.mean[s];
      both[s * 2 * labels + labels + l] = found.spread[s];
    }
  }
  return both;
}

// What all shards of this prediction share, and those of another do not: the models and what they
// are asked, not where that is computed.
std::string prediction_id(const std::vector<OpenedMember>& members, const PredictRequest& request) {
  Hasher hasher;
  const auto add = [&](std::string_view text) { hasher.add(std::string(text) + '\0'); };
  for (const OpenedMember& member : members) {
    add(member.baseline ? member.baseline->id() : hex(hash_file(member.file)));
    for (const double weight : member.weights) add(fmt::format("{}", weight));
  }
  const ScreenSession& session = *members[0].session;
  for (const std::string& name : session.screen.graph().genes().names.all()) add(name);
  for (const std::string& label : session.labels.names) add(label);
  for (const auto* names : {&request.all_pairs_with, &request.all_triples_with}) {
    add(fmt::format("{} genes", names->size()));
    for (const std::string& name : *names) add(name);
  }
  for (const fs::path& file : {request.samples, request.genes})
    add(file.empty() ? "no file" : hex(hash_file(file)));
  if (request.unmeasured) add(hex(session.screen.fingerprint().value()));
  const uint64_t label = request.top > 0 ? find_label(session.labels.names, request.by) : 0;
  add(fmt::format("{} {} {} {}", request.unmeasured, request.top, request.lowest, label));
  return hex(hasher.value());
}

// In this process, whose group only says which device is its own.
PredictResult predict_here(const Run& run, const PredictRequest& request, Progress& progress,
                           const std::function<void(const std::string&)>& note, Group& group) {
  const std::vector<OpenedMember> members = open_members(run, request, note, group);
  const ScreenSession& session = *members[0].session;
  const Names& genes = session.screen.graph().genes().names;
  const uint64_t batch = request.batch ? request.batch : prediction_batch(session);
  const bool has_baseline = std::ranges::any_of(
      members, [](const OpenedMember& member) { return member.baseline != nullptr; });
  auto all = choose_candidates(request, session);
  const uint64_t samples = all->size();
  const auto candidates = shard_of(std::move(all), request.shard);
  PredictionTask task = {
      .out = request.out,
      .genes = genes,
      .labels = column_names(session, members.size() > 1),
      .batch = has_baseline ? std::max(batch, BaselineMember::kBatch) : batch,
      .top = {},
      .shard = {},
  };
  if (!request.shard.is_all())
    task.shard = PredictionShard{
        .shard = request.shard, .of = prediction_id(members, request), .samples = samples};
  if (request.top > 0)
    task.top = {.count = request.top,
                .label = find_label(session.labels.names, request.by),
                .lowest = request.lowest};
  const uint64_t written = predict_candidates(
      *candidates,
      [&](std::span<const int32_t> removed, std::span<const int32_t> ptr) {
        return predict_all(members, batch, removed, ptr);
      },
      task, progress);
  return {.asked = candidates->size(), .written = written, .checkpoint = members[0].checkpoint};
}

fs::path part_of_rank(const fs::path& out, uint64_t rank, uint64_t world) {
  return fs::path(out).replace_extension(fmt::format("rank{}of{}.csv", rank + 1, world));
}

void check_shared_out(const PredictRequest& request) {
  if (!request.shard.is_all())
    throw UsageError(
        "--shard is for processes that do not talk; these ranks share out by themselves");
  if (request.out.extension() != ".csv")
    throw UsageError("several ranks write .csv, and {} is none; call `lacuna predict` alone for it",
                     request.out.string());
}

}  // namespace

PredictResult predict(const Run& run, const PredictRequest& request, Progress& progress,
                      const std::function<void(const std::string&)>& note, Group& group) {
  check(request);
  if (group.is_alone()) return predict_here(run, request, progress, note, group);
  check_shared_out(request);
  PredictRequest own = request;
  own.shard = {.index = group.rank(), .count = group.world()};
  own.out = part_of_rank(request.out, group.rank(), group.world());
  PredictResult result = predict_here(run, own, progress, note, group);
  const at::Tensor asked = at::full({}, int64_t(result.asked), at::kLong);
  group.sum(asked);  // by then all have written
  result.asked = uint64_t(asked.item<int64_t>());
  result.written = 0;
  if (!group.is_first()) return result;
  std::vector<fs::path> parts;
  for (uint64_t rank = 0; rank < group.world(); ++rank)
    parts.push_back(part_of_rank(request.out, rank, group.world()));
  result.written = merge_predictions({parts, request.out, request.top, request.lowest, request.by});
  for (const fs::path& part : parts) fs::remove(part);
  return result;
}

}  // namespace lacuna
