// What the config of a screen names, opened: the screen, its split, the graph on a device, the
// labels, the model. Training (screen_task.h), evaluate, predict and export start here.
#pragma once

#include <memory>
#include <string>

#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/rung_source.h"
#include "lacuna/nn/model.h"
#include "lacuna/run/config.h"
#include "lacuna/run/labels.h"
#include "lacuna/run/run.h"
#include "lacuna/screen/screen.h"
#include "lacuna/store/safetensors.h"
#include "lacuna/train/group.h"

namespace lacuna {

struct ScreenSession {
  Config config;
  Screen screen;
  Split split;              // empty where a run is opened with a screen that has none of its name
  Fingerprint fingerprint;  // of genes, edges and features as the model sees them
  LabelScale labels;
  RungMasks masks;  // of the config's rung; of kernel where the model reads none
  GeneGraph graph;
  std::shared_ptr<Model> model;
  Group* group = &Group::alone();

  at::Device device() const { return graph.device(); }
  std::vector<uint32_t> samples(Part part) const;
};

// Opens everything, with new weights. The settings that the model adds show in config.resolved. On
// the CPU torch gets train.compute_threads; where those are `auto`, one where a step is too small
// for more, else all (or OMP_NUM_THREADS), until a training has measured it (pace/pace.h).
// progress: of filling memory with masks, on the ram rungs.
ScreenSession open_session(const Config& config, const Note& note,
                           Progress& progress = Progress::none(), Group& group = Group::alone());
// The same for a run, with the weights of a checkpoint ("" = best_pearson where there is one, else
// last); `device` overrides the run's where it is not empty, `screen` where it is not. Throws Error
// naming the part that differs when the screen's genes or graph are not those of the checkpoint.
// The rung is `kernel`, whatever the run was trained on: all give the same numbers, and this one
// needs no store.
ScreenSession open_run(const Run& run, const std::string& checkpoint, const std::string& device,
                       const fs::path& screen, const Note& note, Group& group = Group::alone());
// A note where the run's plugin has changed since.
void tell_of_plugin(const Run& run, const Config& config, const Note& note);
std::string choose_checkpoint(const Run& run, const std::string& asked);
// The same session with the same weights, over a graph in which a gene network has no edges (the
// network keeps its place). For predicting. Throws Error for a network that the graph has not.
ScreenSession without_network(const ScreenSession& session, const std::string& network);

// The labels' scale, the model's settings, and where genes are hidden which of them are unseen, as
// a checkpoint holds them.
Json checkpoint_members(const ScreenSession& session);
// Gives a session the labels' scale and the unseen genes of a checkpoint. Throws Error naming what
// differs: a checkpoint is for one gene list and one graph, as far as its model reads them
// (networks, and features, weights and metabolism where it says so).
void take_up(const Safetensors& contents, const fs::path& file, ScreenSession& session);
LabelScale read_label_scale(const Safetensors& contents, const fs::path& file);

}  // namespace lacuna
