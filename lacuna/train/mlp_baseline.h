// The MLP without a graph, trained on the same samples as a model, to be reported beside it.
#pragma once

#include "lacuna/train/session.h"

namespace lacuna {

// Settings that suit it, whatever the model's are (only seed, device and the samples' weights are
// the run's): width 64, the defaults of a config (config.h), but batches of 16 to 256 (64 batches
// an epoch or more), lr 1e-3, at most 30 epochs; the parameters of the best epoch on the validation
// part (lowest MSE, unweighted), stopping after 5 epochs without a better one; where no validation
// sample has a label, those after 10 epochs.
ScreenSession train_mlp_baseline(const ScreenSession& like, Progress& progress);

}  // namespace lacuna
