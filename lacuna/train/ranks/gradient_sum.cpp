#include "lacuna/train/ranks/gradient_sum.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "lacuna/core/error.h"

namespace lacuna {

// Torch calls it whenever something was added to the parameter's gradient.
struct GradientSum::Hook : torch::autograd::PostAccumulateGradHook {
  Hook(GradientSum& owner, size_t number) : owner(owner), number(number) {}
  void operator()(const torch::autograd::Variable&) override { owner.come(number); }
  GradientSum& owner;
  size_t number;
};

GradientSum::GradientSum(std::vector<at::Tensor> parameters, Group& group, int64_t bytes)
    : parameters_(std::move(parameters)),
      group_(group),
      bytes_(bytes),
      bucket_of_(parameters_.size()),
      waits_(parameters_.size(), 0),
      has_come_(parameters_.size(), 0),
      is_late_(parameters_.size(), 0) {
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<Hook>(*this, i));
  deal();
}

GradientSum::~GradientSum() {
  for (const at::Tensor& parameter : parameters_)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void GradientSum::deal() {
  buckets_.clear();
  Bucket last;
  int64_t bytes = bytes_;  // of the bucket that is being filled
  const auto kind = [&](size_t i) { return parameters_[i].scalar_type(); };
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (waits_[i]) {
      last.members.push_back(i);
      continue;
    }
    if (bytes >= bytes_ || kind(buckets_.back().members[0]) != kind(i)) {
      buckets_.emplace_back();
      bytes = 0;
    }
    bucket_of_[i] = buckets_.size() - 1;
    buckets_.back().members.push_back(i);
    bytes += int64_t(parameters_[i].nbytes());
  }
  for (const size_t i : last.members) bucket_of_[i] = buckets_.size();
  buckets_.push_back(std::move(last));
}

void GradientSum::begin() {
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.members.size();
    bucket.flat.reset();
  }
  std::ranges::fill(has_come_, 0);
  std::ranges::fill(is_late_, 0);
  next_ = 0;
  is_open_ = true;
}

void GradientSum::come(size_t number) {
  if (!is_open_ || waits_[number]) return;
  Bucket& bucket = buckets_[bucket_of_[number]];
  if (bucket.flat.defined()) is_late_[number] = 1;
  if (std::exchange(has_come_[number], 1)) return;
  --bucket.missing;
  for (; next_ + 1 < buckets_.size() && buckets_[next_].missing == 0; ++next_)
    set_out(buckets_[next_]);
}

// The gradients become 0, so that what is added to them from here on is told apart.
void GradientSum::set_out(Bucket& bucket) {
  const at::NoGradGuard guard;
  std::vector<at::Tensor> rows;
  for (const size_t i : bucket.members) rows.push_back(parameters_[i].grad().reshape({-1}));
  bucket.flat = at::cat(rows);
  for (const size_t i : bucket.members) parameters_[i].mutable_grad().zero_();
  group_.start_sum(bucket.flat);
}

void GradientSum::put_back(const Bucket& bucket) const {
  int64_t place = 0;
  for (const size_t i : bucket.members) {
    const at::Tensor& gradient = parameters_[i].mutable_grad();
    gradient.add_(bucket.flat.narrow(0, place, gradient.numel()).view(gradient.sizes()));
    place += gradient.numel();
  }
}

void GradientSum::finish(const at::Tensor& also, bool is_recorded) {
  const at::NoGradGuard guard;
  is_open_ = false;
  for (; next_ + 1 < buckets_.size(); ++next_) set_out(buckets_[next_]);
  std::vector<at::Tensor> rest = {also};
  for (const size_t i : buckets_.back().members) rest.push_back(parameters_[i].grad());
  const bool has_late = std::ranges::count(is_late_, 1) > 0;
  LACUNA_ASSERT(!is_recorded || !has_late);
  // On the host, so that reading it waits for no GPU.
  const at::Tensor late = at::full({}, double(has_late), at::TensorOptions(at::kDouble));
  if (!is_recorded) rest.push_back(late);
  group_.sum(rest);
  for (const Bucket& bucket : buckets_)
    if (bucket.flat.defined()) group_.finish_sum(bucket.flat);
  const bool is_late = late.item<double>() > 0;
  if (is_late) sum_late();
  for (const Bucket& bucket : buckets_)
    if (bucket.flat.defined()) put_back(bucket);
  if (is_late) deal();
}

// Where one rank has something late all sum what is left in the gradients, mostly zeros, and agree
// on which parameters wait from now on.
void GradientSum::sum_late() {
  std::vector<at::Tensor> late;
  for (size_t i = 0; i + 1 < buckets_.size(); ++i)
    for (const size_t member : buckets_[i].members) late.push_back(parameters_[member].grad());
  const at::Tensor waits = at::zeros({int64_t(is_late_.size())}, at::kLong);
  for (size_t i = 0; i < is_late_.size(); ++i)
    waits[int64_t(i)].fill_(int64_t(waits_[i] | is_late_[i]));
  late.push_back(waits);
  group_.sum(late);
  for (size_t i = 0; i < waits_.size(); ++i) waits_[i] = waits[int64_t(i)].item<int64_t>() > 0;
}

void GradientSum::abandon() {
  is_open_ = false;
  for (Bucket& bucket : buckets_) bucket.flat.reset();
}

}  // namespace lacuna
