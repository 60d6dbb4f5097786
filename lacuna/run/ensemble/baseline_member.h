// A baseline of a run, for samples that no evaluation holds: the member of an ensemble that
// `lacuna predict` asks. It is fitted once more to what the run was trained on, which gives the
// same predictions as those that the ensemble was made of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/run/evaluation/baselines.h"
#include "lacuna/run/evaluation/network/gene_networks.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

struct BaselineFit {
  std::string name;                    // of evaluation/baselines.h, or network
  Screen screen;                       // that the run was trained on
  Split split;                         // as it was then
  std::vector<uint64_t> labels;        // [L] by index in the screen
  std::optional<Column> weights = {};  // of the samples
};

class BaselineMember {
 public:
  // Throws Error for a baseline that is not one of these (`mlp`), or that cannot be fitted.
  explicit BaselineMember(BaselineFit fit);

  // `network` computes the columns of all training samples for every batch: ask for many at a time.
  static constexpr uint64_t kBatch = 262'144;
  // [B, L] in the labels' own units; sample b removes removed[ptr[b] .. ptr[b + 1]).
  std::vector<float> predict(std::span<const int32_t> removed, std::span<const int32_t> ptr) const;
  // The same where the predictions are: its name, screen, split, labels and weights.
  std::string id() const;

 private:
  std::vector<float> predict_label(size_t l, const Samples& asked,
                                   std::span<const uint64_t> all) const;

  BaselineFit fit_;
  std::vector<Baseline> fitted_;       // [L]; of network the ridge that it needs
  std::vector<GeneNetwork> networks_;  // of network
};

}  // namespace lacuna
