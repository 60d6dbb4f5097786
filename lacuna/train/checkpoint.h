// A checkpoint: one safetensors file with everything that a run needs to go on, or a model to
// predict. Written whole or not at all.
//
//   arrays     parameters and buffers by name; "optimizer.exp_avg.NAME" and
//              "optimizer.exp_avg_sq.NAME" of the parameters
//   metadata   "lacuna" (JSON): progress of the training, loader state, fingerprint of the data,
//              what the task adds (of a screen: labels and their scale, model settings, and
//              with train.hide the numbers of the genes that were never seen);
//              "xxh3": of all the rest
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "lacuna/load/loader.h"
#include "lacuna/store/fingerprint.h"
#include "lacuna/store/safetensors.h"

namespace lacuna {

class Optimiser;

// How far a training has come.
struct TrainState {
  uint64_t step = 0;   // updates done
  uint64_t epoch = 0;  // epochs done
  LoaderState loader;
  double loss_sum = 0;                 // of the batches of this epoch, by samples
  uint64_t loss_count = 0;             // samples
  std::map<std::string, double> best;  // validation scores by name; NaN: none yet
  uint64_t epochs_without_better = 0;
  double seconds = 0;  // of training so far, all parts of an interrupted run together
};

// about: members of the metadata beside the training's own.
void write_checkpoint(const fs::path& file, const torch::nn::Module& model,
                      const Optimiser& optimiser, const TrainState& state, const Json& about);

// The contents of a checkpoint. Throws Error for a file that is none, and for one whose bytes are
// not those that were written.
Safetensors read_checkpoint(const fs::path& file);

// All throw Error naming the file and what is missing or does not fit.
// prefix: what stands before the names of a part of a model ("readout m1.").
void load_weights(const Safetensors& contents, const fs::path& file, torch::nn::Module& model,
                  const std::string& prefix = {});
void load_weight(const Safetensors& contents, const fs::path& file, const std::string& name,
                 const at::Tensor& out);
void load_optimiser(const Safetensors& contents, const fs::path& file,
                    const torch::nn::Module& model, Optimiser& optimiser);
TrainState read_train_state(const Safetensors& contents, const fs::path& file);
Fingerprint read_fingerprint(const Safetensors& contents, const fs::path& file);
// Any other member of the metadata; what `read` throws of JSON becomes an Error.
void read_member(const Safetensors& contents, const fs::path& file, const char* member,
                 const std::function<void(const Json&)>& read);

// Throws Error naming what differs where a checkpoint is of other data than that of `here`: its
// `thing` (graph) is another one, or `kind` (screen) `name` is.
struct BoundTo {
  std::string kind, thing, name;  // "screen", "graph", its path
};
void check_fingerprint(const Fingerprint& trained, const Fingerprint& here, const fs::path& file,
                       const BoundTo& bound);

// A tensor as an array, copied to the host where it is not there; and back.
Array to_array(const at::Tensor& tensor);
at::Tensor to_tensor(const Array& array);

}  // namespace lacuna
