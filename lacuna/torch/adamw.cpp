#include "lacuna/torch/adamw.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lacuna/core/error.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/update/adamw.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {

bool can_fuse_adamw([[maybe_unused]] const std::vector<at::Tensor>& parameters) {
#if LACUNA_HAVE_CUDA
  return !parameters.empty() && std::ranges::all_of(parameters, [&](const at::Tensor& parameter) {
    return parameter.is_cuda() && parameter.scalar_type() == at::kFloat &&
           parameter.is_contiguous() && parameter.device() == parameters[0].device();
  });
#else
  return false;
#endif
}

FusedAdamw::FusedAdamw(AdamwTensors tensors, double weight_decay, double clip)
    : tensors_(std::move(tensors)), weight_decay_(weight_decay), clip_(clip) {
  make_table();
}

#if LACUNA_HAVE_CUDA
using namespace torch_ops;

void FusedAdamw::make_table() {
  gradients_.clear();
  std::vector<AdamwPart> parts;
  for (size_t i = 0; i < tensors_.parameters.size(); ++i) {
    const Tensor& parameter = tensors_.parameters[i];
    const Tensor gradient = parameter.grad();
    if (!gradient.defined() || !gradient.is_contiguous() || gradient.scalar_type() != at::kFloat)
      throw Error("a gradient of {} numbers is not as its parameter: f32 and contiguous",
                  parameter.numel());
    gradients_.push_back(gradient.mutable_data_ptr());
    for (int64_t first = 0; first < parameter.numel(); first += kAdamwPart)
      parts.push_back({mutable_data<float>(parameter) + first,
                       mutable_data<float>(gradient) + first,
                       mutable_data<float>(tensors_.averages[i]) + first,
                       mutable_data<float>(tensors_.averages_sq[i]) + first,
                       int32_t(std::min<int64_t>(kAdamwPart, parameter.numel() - first))});
  }
  parts_ = int64_t(parts.size());
  const auto options = tensors_.parameters[0].options().requires_grad(false);
  table_ = at::from_blob(parts.data(), int64_t(parts.size() * sizeof(AdamwPart)), at::kByte)
               .to(options.device());
  sums_ = at::empty({parts_}, options.dtype(at::kDouble));
  norm_ = at::zeros({}, options);
}

at::Tensor FusedAdamw::update(const at::Tensor& lr, const at::Tensor& step) {
  // Gradients stay where they are; but who sets one anew has it somewhere else.
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const Tensor& gradient = tensors_.parameters[i].grad();
    if (gradient.defined() && gradient.data_ptr() == gradients_[i]) continue;
    make_table();
    break;
  }
  const Launch launch(norm_.device());
  adamw_cuda({.rule = {.weight_decay = weight_decay_, .clip = clip_},
              .parts = parts_,
              .table = reinterpret_cast<const AdamwPart*>(table_.const_data_ptr()),
              .lr = data<float>(lr),
              .step = mutable_data<int64_t>(step),
              .sums = mutable_data<double>(sums_),
              .norm = mutable_data<float>(norm_)},
             launch.stream());
  return norm_;
}
#else
void FusedAdamw::make_table() { throw Error("this build has no CUDA, so nothing to fuse"); }
at::Tensor FusedAdamw::update(const at::Tensor&, const at::Tensor&) { return norm_; }
#endif

}  // namespace lacuna
