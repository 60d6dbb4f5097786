#include "lacuna/train/screen_task.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/validation.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/run/plugin/plugin.h"
#include "lacuna/train/auto_batch.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/evaluate_run.h"
#include "lacuna/train/predictor.h"

namespace lacuna {

FeedOptions feed_options(const ScreenSession& session) {
  const TrainOptions& train = session.config.train;
  const int64_t world = session.group->world();
  FeedOptions options = {.device = session.device(),
                         .batch = (train.batch + world - 1) / world,
                         .widest = widest_removal(session.screen.samples())};
  if (!train.weight_column.empty())
    options.weights =
        weights_of(session.screen.samples(), train.weight_column, session.samples(Part::train));
  return options;
}

namespace {

class ScreenFeed : public Feed {
 public:
  ScreenFeed(const ScreenSession& session, const FeedOptions& options)
      : session_(session),
        loader_(RungSource(session.screen, session.masks, uint64_t(options.batch),
                           {.selection = session.samples(Part::train)}),
                settings(session)),
        feed_(loader_, session.labels, options) {}

  const Batch* next() override { return feed_.next(); }
  const LoaderState& state() const override { return feed_.state(); }
  void seek(const LoaderState& state) override { feed_.seek(state); }
  std::vector<uint64_t> samples(uint64_t epoch, uint64_t position) const override {
    OrderSettings of_all = loader_.order().settings();
    of_all.rank = 0;
    of_all.world = 1;
    std::vector<uint64_t> places;
    Order(loader_.order().samples(), of_all).batch(epoch, position, places);
    const auto training = session_.samples(Part::train);
    for (uint64_t& place : places) place = training[place];
    return places;
  }

 private:
  static LoaderSettings settings(const ScreenSession& session) {
    const TrainOptions& options = session.config.train;
    return {.order = {.global_batch = uint64_t(options.batch),
                      .seed = options.seed,
                      .rank = session.group->rank(),
                      .world = session.group->world()},
            .threads = int(options.threads),
            .prefetch = session.masks.prefetch(int(options.threads))};
  }

  const ScreenSession& session_;
  Loader<RungSource> loader_;
  BatchFeed feed_;
};

// The last global batch of an epoch may have no sample for a rank: it takes the wild type along,
// unmeasured, so that it does what the others do.
DeviceBatch wild_type_batch(const DeviceBatch& empty) {
  DeviceBatch batch = empty;
  batch.input = wild_type(empty.input);
  if (empty.input.masks.defined()) batch.input.masks = empty.input.masks.repeat({2, 1});
  batch.labels = at::full({1, empty.labels.size(1)}, NAN, empty.labels.options());
  if (empty.weights.defined()) batch.weights = at::zeros({1}, empty.weights.options());
  return batch;
}

at::Tensor pointwise_loss(const std::string& kind, const at::Tensor& error) {
  if (kind == "mse") return error.square();
  if (kind == "huber") {
    const auto size = error.abs();
    return at::where(size.le(1), 0.5 * error.square(), size - 0.5);
  }
  if (kind == "logcosh")  // log cosh e = |e| + log(1 + exp(-2 |e|)) - log 2, without overflow
    return error.abs() + at::log1p(at::exp(-2 * error.abs())) - std::log(2.0);
  throw Error("there is no loss '{}'; there are mse, logcosh and huber", kind);
}

}  // namespace

at::Tensor batch_loss(const std::string& kind, const at::Tensor& predicted,
                      const at::Tensor& labels, const at::Tensor& weights, Group& group) {
  const auto measured = labels.isnan().logical_not();
  const auto error = at::where(measured, predicted - labels.to(predicted.scalar_type()), 0);
  auto share = measured.to(predicted.scalar_type());
  if (weights.defined()) share = share * weights.to(predicted.scalar_type()).unsqueeze(1);
  const at::Tensor sum = (pointwise_loss(kind, error) * share).sum(), weight = share.sum();
  if (group.is_alone()) return sum / weight.clamp_min(1e-12);
  group.sum(weight);
  return sum / weight.clamp_min(1e-12) * double(group.world());
}

std::unique_ptr<ScreenTask> open_screen_task(const OpenTask& request) {
  const Config& config = request.config;
  if (request.run && !fs::exists(config.screen))
    throw Error(
        "there is no screen {}, which {} is trained on; if it has moved: `lacuna train {} --set "
        "screen=DIRECTORY --resume --out {}`",
        config.screen.string(), request.run->path().string(), request.run->config().string(),
        request.run->path().string());
  ScreenSession session = open_session(config, request.note, request.progress, request.group);
  if (session.config.train.batch == 0) find_batch(session, request.note);
  return std::make_unique<ScreenTask>(std::move(session));
}

std::string ScreenTask::words() const {
  return fmt::format("{} with {} parameters on {}", session_.config.model["name"].as<std::string>(),
                     with_commas(uint64_t(session_.model->parameter_count())),
                     session_.device().str());
}

std::unique_ptr<Feed> ScreenTask::training() {
  return std::make_unique<ScreenFeed>(session_, feed_options(session_));
}

void ScreenTask::prepare_step(uint64_t step) {
  const TrainOptions& options = session_.config.train;
  if (HiddenGenes* const hidden = session_.model->hidden_genes())
    hidden->draw(options.hide, options.seed, step);
}

at::Tensor ScreenTask::loss(const Batch& given, uint64_t epoch) {
  const auto& batch = static_cast<const DeviceBatch&>(given);  // which our own feeds give out
  if (batch.size() == 0) return loss(wild_type_batch(batch), epoch);
  const at::Tensor predicted = session_.model->forward(batch.input);
  return session_.model->total_loss(batch_loss(session_.config.train.loss, predicted, batch.labels,
                                               batch.weights, *session_.group),
                                    int64_t(epoch));
}

std::vector<Score> ScreenTask::scores() const {
  return {{"pearson", "Pearson", /*higher_is_better=*/true},
          {"mse", "MSE", /*higher_is_better=*/false}};
}

ValidationScores ScreenTask::validate() {
  const Predictions found = predict_samples(session_, session_.samples(Part::validation), 0);
  const Unstoppable whole;
  const Validation validation = lacuna::validate(found.predicted, found.measured, session_.labels);
  ValidationScores scores;
  if (!validation.labels.empty()) scores.values = {validation.pearson, validation.mse};
  for (size_t l = 0; l < validation.labels.size(); ++l)
    scores.parts[session_.labels.names[l]] = to_json(validation.labels[l]);
  return scores;
}

// On rung `kernel`, whatever the training's: all give the same numbers.
void ScreenTask::evaluate(const Run& run, const Note& note, Progress& progress) {
  const std::string checkpoint = choose_checkpoint(run, "");
  const fs::path file = run.checkpoint(checkpoint);
  load_weights(read_checkpoint(file), file, *session_.model);
  ScreenSession session = session_;
  session.masks = RungMasks();
  session.graph.make_no_masks();
  evaluate_session(run, session, {.checkpoint = checkpoint}, note, progress);
}

Json ScreenTask::description() const {
  uint64_t edges = 0;
  for (const EdgeType* type : session_.screen.graph().gene_edges()) edges += type->size();
  Json about = {{"screen",
                 {{"path", fs::absolute(session_.screen.path()).string()},
                  {"fingerprint", session_.fingerprint.to_json()},
                  {"samples", session_.screen.samples().size()},
                  {"genes", session_.screen.graph().genes().size()},
                  {"edges", edges}}}};
  if (const fs::path& plugin = session_.config.plugin; !plugin.empty())
    about["plugin"] = plugin_description(plugin);
  return about;
}

void ScreenTask::resume(const Safetensors& checkpoint, const fs::path& file) {
  take_up(checkpoint, file, session_);
}

// A run should not fail behind its last step.
void ScreenTask::check(const Run* trained, const Note& note) {
  if (trained) tell_of_plugin(*trained, session_.config, note);
  const Samples& samples = session_.screen.samples();
  const TrainOptions& options = session_.config.train;
  const auto numbers = session_.samples(Part::validation);
  if (!options.weight_column.empty())
    weights_of(samples, options.weight_column, session_.samples(Part::train));
  check_labels(samples, session_.labels, numbers);
  check_evaluation(session_);
  const auto measured = measured_labels(samples, session_.labels.columns,
                                        std::vector<uint64_t>(numbers.begin(), numbers.end()));
  const auto unjudged = labels_without_spread(measured, session_.labels);
  if (!numbers.empty() && !unjudged.empty())
    note(fmt::format(
        "the validation part has fewer than two different values of label {}: no Pearson of it",
        fmt::join(unjudged, ", ")));
  if (options.patience != 0 && unjudged.size() >= session_.labels.size())
    throw Error("train.patience is {}, but split '{}' has no validation samples{}; set it to 0",
                options.patience, session_.split.name,
                numbers.empty() ? "" : " whose labels differ");
  for (const Part part : {Part::train, Part::validation})  // a store may hold fewer than the screen
    if (const auto stored = session_.samples(part); !stored.empty())
      session_.masks.check_samples(session_.screen, stored.front(), stored.back());
  if (trained) check_kept_split(*trained, session_.screen, session_.split);
}

void ScreenTask::keep(const Run& run) const { keep_split(run, session_.screen, session_.split); }

Json ScreenTask::describe(std::span<const uint64_t> samples) const {
  Json removed = Json::array();
  const RemovedReader reader(session_.screen.samples());
  std::vector<uint32_t> genes;
  for (const uint64_t sample : samples) {
    reader.read(sample, genes);
    Json names = Json::array();
    for (const uint32_t gene : genes) names.push_back(session_.screen.graph().genes().names[gene]);
    removed.push_back(names);
  }
  return {{"removed", removed}};
}

}  // namespace lacuna
