#include "lacuna/nn/hidden_genes.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"

namespace lacuna {
namespace {

constexpr uint64_t kStream = 0x68696465;  // apart from what else is drawn from the seed

// Not hidden, of so many genes; pinned where a device is to fetch it while the host goes on.
at::Tensor nobody(int64_t genes, at::Device device) {
  return at::zeros({genes, 1}, at::TensorOptions(at::kBool).pinned_memory(device.is_cuda()));
}

void mark(const std::vector<int64_t>& genes, const at::Tensor& hidden) {
  for (const int64_t gene : genes) hidden.mutable_data_ptr<bool>()[gene] = true;
}

}  // namespace

HiddenGenes::HiddenGenes(const at::Tensor& like, const std::vector<int64_t>& unseen) {
  unknown = register_parameter("unknown", at::zeros({like.size(1)}, like.options()).detach());
  always_ = at::zeros({like.size(0), 1}, like.options().dtype(at::kBool)).detach();
  drawn_ = at::zeros_like(always_);
  set_unseen(unseen);
}

void HiddenGenes::set_unseen(const std::vector<int64_t>& unseen) {
  const int64_t genes = always_.size(0);
  for (const int64_t gene : unseen)
    if (gene < 0 || gene >= genes)
      throw Error("gene {} is named as one without training samples, but there are {} genes", gene,
                  genes);
  unseen_ = unseen;
  std::ranges::sort(unseen_);
  const at::Tensor hidden = nobody(genes, always_.device());
  mark(unseen_, hidden);
  always_.copy_(hidden);
  drawn_.copy_(hidden);
}

void HiddenGenes::draw(double p, uint64_t seed, uint64_t step) {
  const int64_t genes = drawn_.size(0);
  // New memory for every draw: the device may not have fetched the last one yet.
  const at::Tensor hidden = nobody(genes, drawn_.device());
  Random random(seed + mix64(step), kStream);
  for (int64_t gene = 0; gene < genes; ++gene)
    hidden.mutable_data_ptr<bool>()[gene] = random.uniform() < p;
  mark(unseen_, hidden);
  drawn_.copy_(hidden, /*non_blocking=*/true);
}

at::Tensor HiddenGenes::forward(const at::Tensor& rows) const {
  return at::where(hidden(), unknown, rows);
}

}  // namespace lacuna
