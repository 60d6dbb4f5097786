// A checkpoint: one safetensors file with everything that a run needs to go on, or a model to
// predict. Written whole or not at all.
//
//   arrays     parameters by name; "optimizer.exp_avg.NAME", "optimizer.exp_avg_sq.NAME"
//   metadata   "lacuna" (JSON): progress of the training, loader state, labels and their scale,
//              fingerprint of genes and graph, model settings; "xxh3": of all the rest
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "lacuna/load/loader.h"
#include "lacuna/nn/model.h"
#include "lacuna/run/labels.h"
#include "lacuna/store/fingerprint.h"
#include "lacuna/store/safetensors.h"

namespace lacuna {

class Optimiser;

// How far a training has come.
struct TrainState {
  uint64_t step = 0;   // updates done
  uint64_t epoch = 0;  // epochs done
  LoaderState loader;
  double loss_sum = 0;      // of the batches of this epoch, by samples
  uint64_t loss_count = 0;  // samples
  double best_pearson = -std::numeric_limits<double>::infinity();
  double best_mse = std::numeric_limits<double>::infinity();
  uint64_t epochs_without_better = 0;
  double seconds = 0;  // of training so far, all parts of an interrupted run together
};

struct CheckpointContext {
  const LabelScale& labels;
  const Fingerprint& fingerprint;
  std::string settings;  // of the model, YAML
};

void write_checkpoint(const fs::path& file, const Model& model, const Optimiser& optimiser,
                      const TrainState& state, const CheckpointContext& context);

// The contents of a checkpoint. Throws Error for a file that is none, and for one whose bytes are
// not those that were written.
Safetensors read_checkpoint(const fs::path& file);

// All throw Error naming the file and what is missing or does not fit.
void load_weights(const Safetensors& contents, const fs::path& file, Model& model);
void load_optimiser(const Safetensors& contents, const fs::path& file, const Model& model,
                    Optimiser& optimiser);
TrainState read_train_state(const Safetensors& contents, const fs::path& file);
LabelScale read_label_scale(const Safetensors& contents, const fs::path& file);
Fingerprint read_fingerprint(const Safetensors& contents, const fs::path& file);

// A tensor as an array, copied to the host where it is not there; and back.
Array to_array(const at::Tensor& tensor);
at::Tensor to_tensor(const Array& array);

}  // namespace lacuna
