// Genes whose own learned row is hidden from a model: one learned row, `unknown`, stands in its
// place. What a model then says about such a gene it has from the networks and the features alone,
// so a model that has trained with hidden genes can speak for genes that it never saw
// (`train.hide`).
//
//   while training   the unseen genes, and those of the step's draw
//   otherwise        the unseen genes: those without training samples, and with train.hide 1 all
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

namespace lacuna {

class HiddenGenes : public torch::nn::Module {
 public:
  // like [N, H]: the learned rows, for their shape, type and device; unseen: numbers of genes.
  HiddenGenes(const at::Tensor& like, const std::vector<int64_t>& unseen);

  // Throws Error for a number that is no gene's.
  void set_unseen(const std::vector<int64_t>& unseen);
  const std::vector<int64_t>& unseen() const { return unseen_; }  // ascending
  // Draws anew who is hidden while training: every gene with probability p. A pure function of seed
  // and step, so that a run that goes on, and every rank, draws the same. It is written into a
  // tensor that stays where it is: a recorded step reads the draw of each replay.
  void draw(double p, uint64_t seed, uint64_t step);

  at::Tensor forward(const at::Tensor& rows) const;     // [N, H] -> [N, H]
  const at::Tensor& always() const { return always_; }  // [N, 1] bool: the unseen genes
  // [N, 1] bool: who is hidden now
  const at::Tensor& hidden() const { return is_training() ? drawn_ : always_; }

  at::Tensor unknown;  // [H], starts at 0

 private:
  std::vector<int64_t> unseen_;
  at::Tensor always_, drawn_;  // [N, 1] bool
};

}  // namespace lacuna
