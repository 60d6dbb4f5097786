#include "lacuna/train/session.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <span>

#include "lacuna/core/error.h"
#include "lacuna/graph/shuffle_graph.h"
#include "lacuna/graph/without_edges.h"
#include "lacuna/run/ensemble/ensemble.h"
#include "lacuna/run/plugin/plugin.h"
#include "lacuna/screen/plan_cache.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/train/checkpoint.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/cuda/shared_memory_cuda.h"
#endif

namespace lacuna {
namespace {

// The graph as the model sees it.
struct Seen {
  HeteroGraph graph;
  Fingerprint fingerprint;
};

Seen see_graph(const Config& config, const Screen& screen) {
  if (config.graph != "shuffled")
    return {screen.graph(),
            screen.fingerprint().only({"genes", "nodes ", "features ", "edges ", "values "})};
  HeteroGraph graph = shuffle_graph(screen.graph(), config.train.seed);
  Fingerprint fingerprint = fingerprint_of(graph);
  return {std::move(graph), std::move(fingerprint)};
}

// The graph on its device. What a GPU needs planned is kept beside the screen (plan_cache.h).
GeneGraph place_graph(const Screen& screen, const HeteroGraph& graph, at::Device device,
                      const Note& note, const Group& group) {
  const bool is_shared = !group.is_alone();  // by the ranks of a host
#if LACUNA_HAVE_CUDA
  if (device.is_cuda() && graph.genes().size() < 65536) {
    const uint32_t capacity = slab_capacity(cuda_shared_memory_bytes(), graph.genes().size(),
                                            uint32_t(graph.gene_edges().size()));
    const CachedPlan cached = cached_plan(screen, graph, capacity);
    if (!cached.note.empty()) note(cached.note);
    return GeneGraph(graph, device, &cached, is_shared);
  }
#endif
  (void)screen, (void)note;
  return GeneGraph(graph, device, nullptr, is_shared);
}

void tell_of_edge_values(const Model& model, const HeteroGraph& graph, const Note& note) {
  if (model.reads_weights()) return;
  std::vector<std::string> names;
  for (const EdgeType* type : graph.gene_edges())
    if (!type->values.empty()) names.push_back(type->name);
  if (!names.empty())
    note(fmt::format(
        "edges have values (weights) in {}: this model reads which edges there are, not these "
        "(model.weights of hetero_gin and wild_type)",
        fmt::join(names, ", ")));
}

// What of a graph's fingerprint a model depends on.
Fingerprint parts_for(const Model& model, const Fingerprint& fingerprint) {
  Fingerprint used;
  const std::vector<std::string> features = model.feature_names();
  for (const auto& [name, hash] : fingerprint.parts()) {
    const bool is_network = name.starts_with("edges gene.") && name.ends_with(".gene");
    const std::string_view feature = "features gene.";
    const bool is_feature =
        name.starts_with(feature) &&
        (features.empty() || std::ranges::count(features, name.substr(feature.size())) > 0);
    const bool is_weight =
        name.starts_with("values gene.") &&
        name.find(".gene.", std::string_view("values gene.").size()) != std::string::npos;
    const bool is_metabolism =
        name.starts_with("nodes ") || (name.starts_with("edges ") && !is_network) ||
        (name.starts_with("values reaction.") && name.ends_with(".coefficient"));
    if (name == "genes" || is_network || (is_feature && model.reads_features()) ||
        (is_weight && model.reads_weights()) || (is_metabolism && model.reads_metabolism()))
      used.add(name, hash);
  }
  return used;
}

// Predicting needs none, and another screen may have none of that name.
Split split_if_any(const Screen& screen, const std::string& name) {
  for (const Split& split : screen.splits())
    if (split.name == name) return split;
  return {};
}

// A step of so few numbers is over before a second thread has begun: with it, and worse with many
// or on a busy machine, most of the time goes into waiting. Who sets OMP_NUM_THREADS has chosen.
// What a training measured, or was told, holds for it alone: predictions have the same bits with
// any number (predictor.h).
void choose_threads(const Config& config, uint64_t genes, bool is_training) {
  static const int usual = at::get_num_threads();
  if (is_training && config.train.compute_threads > 0)
    return at::set_num_threads(int(config.train.compute_threads));
  if (std::getenv("OMP_NUM_THREADS")) return;
  constexpr uint64_t kEnough = 1 << 18;  // numbers of a layer's state, of one edge type
  const YAML::Node width = config.model["width"];
  const uint64_t numbers =
      genes * uint64_t(config.train.batch + 1) * (width ? width.as<uint64_t>() : 64);
  const bool is_known = config.train.batch > 0;  // else `auto`, which fills the memory
  at::set_num_threads(is_known && numbers < kEnough ? 1 : usual);
}

std::vector<int64_t> every_gene(const Screen& screen) {
  std::vector<int64_t> all(screen.graph().genes().size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The genes that no training sample with a measured label removes, ascending.
std::vector<int64_t> unseen_genes(const Screen& screen, const LabelScale& labels,
                                  std::span<const uint32_t> training) {
  const Samples& samples = screen.samples();
  const auto measured = samples.labels.as<float>();  // [S, L]
  const auto is_measured = [&](uint64_t sample) {
    return std::ranges::any_of(labels.columns, [&](uint64_t column) {
      return !std::isnan(measured[sample * samples.label_count() + column]);
    });
  };
  std::vector<char> seen(screen.graph().genes().size(), false);
  const RemovedReader reader(samples);
  std::vector<uint32_t> removed;
  for (const uint32_t sample : training) {
    if (!is_measured(sample)) continue;
    reader.read(sample, removed);
    for (const uint32_t gene : removed) seen[gene] = true;
  }
  std::vector<int64_t> unseen;
  for (size_t gene = 0; gene < seen.size(); ++gene)
    if (!seen[gene]) unseen.push_back(int64_t(gene));
  return unseen;
}

// Its statistics would be those of a rank's share of the batch.
void check_ranks(const YAML::Node& model, const Group& group) {
  if (!group.is_alone() && model["norm"] && model["norm"].as<std::string>() == "batch_graph")
    throw Error(
        "model.norm is batch_graph, which couples the samples of a batch, but there are {} ranks, "
        "each with a part of it; train in one process, or with model.norm=layer",
        group.world());
}

// The rank's own GPU becomes the one that CUDA calls go to.
at::Device take_device(const std::string& name, const Note& note, const Group& group) {
  const at::Device device = choose_device(name, note, group);
  if (device.is_cuda() && device.index() > 0)
    c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  return device;
}

ScreenSession assemble(const Config& config, const LabelScale* trained, const Note& note,
                       Progress& progress, Group& group = Group::alone()) {
  if (!fs::exists(config.screen))
    throw Error("there is no screen {}; {}", config.screen.string(),
                trained ? "name the place that it has moved to with --screen"
                        : "name it in the config (`screen`, a path from the folder that lacuna is "
                          "called in), or with --set screen=DIRECTORY");
  const Screen screen = Screen::open(config.screen, progress);
  const Split split = trained ? split_if_any(screen, config.split) : screen.split(config.split);
  const auto training = samples_in(split, Part::train);
  if (training.empty() && !trained)
    throw Error("split '{}' of {} has no training samples", split.name, screen.path().string());
  LabelScale labels = trained ? find_labels(screen.samples(), *trained)
                              : scale_labels(screen.samples(), config.labels, training);
  const at::Device device = take_device(config.train.device, note, group);
  Seen seen = see_graph(config, screen);
  GeneGraph graph = place_graph(screen, seen.graph, device, note, group);
  const auto model = make_model(config.model, graph, int64_t(labels.size()), config.train.seed);
  if (!trained) tell_of_edge_values(*model, seen.graph, note);
  if (config.train.hide > 0) {
    std::vector<int64_t> always;  // of a run that is opened take_up() then says who
    if (!trained && config.train.hide == 1)
      always = every_gene(screen);  // no row is ever learned: none may be shown later
    else if (!trained)
      always = unseen_genes(screen, labels, training);
    model->hide_genes(always);
  }
  check_ranks(config.model, group);
  if (config.train.precision == "bf16") model->compute_in(at::kBFloat16);
  if (device.is_cpu()) choose_threads(config, screen.graph().genes().size(), !trained);
  const RungOptions rung =
      rung_for({config.rung, config.store}, config.model["name"].as<std::string>(),
               model->reads_masks(), note);
  if (makes_masks_on_device(rung.rung)) graph.make_masks(seen.graph);
  const RungMasks masks(screen, seen.graph, rung, progress);
  return {config, screen, split, std::move(seen.fingerprint), std::move(labels), masks,
          graph,  model,  &group};
}

}  // namespace

std::vector<uint32_t> ScreenSession::samples(Part part) const { return samples_in(split, part); }

ScreenSession open_session(const Config& config, const Note& note, Progress& progress,
                           Group& group) {
  return assemble(config, nullptr, note, progress, group);
}

void tell_of_plugin(const Run& run, const Config& config, const Note& note) {
  const std::string words = plugin_note(run.info(), config.plugin);
  if (!words.empty()) note(words);
}

std::string choose_checkpoint(const Run& run, const std::string& asked) {
  if (const auto ensemble = read_ensemble_file(run.path())) {
    std::vector<std::string> members;
    for (const fs::path& member : ensemble->runs()) members.push_back(member.string());
    throw Error("{} is an ensemble and has no model of its own; name one of its runs: {}",
                run.path().string(), fmt::join(members, ", "));
  }
  if (!asked.empty()) {
    if (run.has_checkpoint(asked)) return asked;
    std::vector<std::string> there;
    for (const char* name :
         {"last", "best_pearson", "best_mse", "best_bits_per_spike", "best_correlation"})
      if (run.has_checkpoint(name)) there.push_back(name);
    throw Error("{} has no checkpoint '{}'; it has: {}", run.path().string(), asked,
                fmt::join(there, ", "));
  }
  for (const char* name : {"best_pearson", "best_bits_per_spike", "last"})
    if (run.has_checkpoint(name)) return name;
  throw Error("{} has no checkpoint yet; `lacuna train --resume --out {}` goes on with it",
              run.path().string(), run.path().string());
}

ScreenSession open_run(const Run& run, const std::string& checkpoint, const std::string& device,
                       const fs::path& screen, const Note& note, Group& group) {
  Config config = read_config(run.config(), {});
  if (config.kind() == DataKind::recording)
    throw Error("{} is the run of a recording, and this is for runs of screens",
                run.path().string());
  tell_of_plugin(run, config, note);
  if (!device.empty()) config.train.device = device;
  if (!screen.empty()) config.screen = screen;
  config.rung = Rung::kernel;
  config.store.clear();
  const fs::path file = run.checkpoint(choose_checkpoint(run, checkpoint));
  const Safetensors contents = read_checkpoint(file);
  const LabelScale trained = read_label_scale(contents, file);
  ScreenSession session = assemble(config, &trained, note, Progress::none(), group);
  take_up(contents, file, session);
  load_weights(contents, file, *session.model);
  return session;
}

ScreenSession without_network(const ScreenSession& session, const std::string& network) {
  const HeteroGraph less = without_edges(see_graph(session.config, session.screen).graph,
                                         fmt::format("gene.{}.gene", network));
  ScreenSession other = session;
  other.graph = GeneGraph(less, session.device());
  other.model = make_model(YAML::Clone(session.config.model), other.graph,
                           int64_t(session.labels.size()), session.config.train.seed);
  if (const HiddenGenes* const hidden = session.model->hidden_genes())
    other.model->hide_genes(hidden->unseen());
  if (session.config.train.precision == "bf16") other.model->compute_in(at::kBFloat16);
  const at::NoGradGuard guard;
  const auto weights = session.model->named_parameters();
  for (const auto& entry : other.model->named_parameters())
    entry.value().copy_(weights[entry.key()]);
  return other;
}

Json checkpoint_members(const ScreenSession& session) {
  YAML::Emitter settings;
  settings << session.config.model;
  const LabelScale& labels = session.labels;
  Json members = {{"labels",
                   {{"names", labels.names},
                    {"columns", labels.columns},
                    {"mean", labels.mean},
                    {"sd", labels.sd}}},
                  {"model", settings.c_str()}};
  if (const HiddenGenes* const hidden = session.model->hidden_genes())
    members["hidden"] = {{"probability", session.config.train.hide}, {"unseen", hidden->unseen()}};
  return members;
}

void take_up(const Safetensors& contents, const fs::path& file, ScreenSession& session) {
  check_fingerprint(parts_for(*session.model, read_fingerprint(contents, file)),
                    parts_for(*session.model, session.fingerprint), file,
                    {"screen", "graph", session.screen.path().string()});
  session.labels = find_labels(session.screen.samples(), read_label_scale(contents, file));
  if (HiddenGenes* const hidden = session.model->hidden_genes())
    read_member(contents, file, "hidden", [&](const Json& json) {
      hidden->set_unseen(json.at("unseen").get<std::vector<int64_t>>());
    });
}

LabelScale read_label_scale(const Safetensors& contents, const fs::path& file) {
  LabelScale scale;
  read_member(contents, file, "labels", [&](const Json& json) {
    scale = {json.at("names").get<std::vector<std::string>>(),
             json.at("columns").get<std::vector<uint64_t>>(),
             json.at("mean").get<std::vector<double>>(), json.at("sd").get<std::vector<double>>()};
  });
  if (scale.columns.size() != scale.size() || scale.mean.size() != scale.size() ||
      scale.sd.size() != scale.size())
    throw Error("{}: 'labels' is missing or damaged", file.string());
  return scale;
}

}  // namespace lacuna
