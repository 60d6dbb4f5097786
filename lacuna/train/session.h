// What a config names, opened: the screen, its split, the graph on a device, the labels, the model.
// Train, evaluate, predict, export and profile all start here.
#pragma once

#include <functional>
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

namespace lacuna {

struct Session {
  Config config;
  Screen screen;
  Split split;              // empty where a run is opened with a screen that has none of its name
  Fingerprint fingerprint;  // of genes, edges and features as the model sees them
  LabelScale labels;
  RungMasks masks;  // of the config's rung; of kernel where the model reads none
  GeneGraph graph;
  std::shared_ptr<Model> model;

  at::Device device() const { return graph.device(); }
  std::vector<uint32_t> samples(Part part) const;
};

// Hears what the user should know: "no GPU in this build, training on the CPU".
using Note = std::function<void(const std::string&)>;

// `cpu`, `cuda` or `auto`. Throws Error for another word and when it cannot be had; auto says what
// it takes.
at::Device choose_device(const std::string& name, const Note& note);

// Opens everything, with new weights. The settings that the model adds show in config.resolved. On
// the CPU torch gets one thread where a step is too small for more, else all (or OMP_NUM_THREADS).
// progress: of filling memory with masks, on the ram rungs.
Session open_session(const Config& config, const Note& note, Progress& progress = Progress::none());
// The same for a run, with the weights of a checkpoint ("" = best_pearson where there is one, else
// last); `device` overrides the run's where it is not empty, `screen` where it is not. Throws Error
// naming the part that differs when the screen's genes or graph are not those of the checkpoint.
// The rung is `kernel`, whatever the run was trained on: all give the same numbers, and this one
// needs no store.
Session open_run(const Run& run, const std::string& checkpoint, const std::string& device,
                 const fs::path& screen, const Note& note);
std::string choose_checkpoint(const Run& run, const std::string& asked);

// Throws Error naming what differs: a checkpoint is for one gene list and one graph, as far as its
// model reads them (networks, and features and metabolism where it says so).
void check_fingerprint(const Fingerprint& trained, const Session& session, const fs::path& file);

}  // namespace lacuna
