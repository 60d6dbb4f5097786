// The gradients of a model summed over the ranks while the backward pass goes on.
//
// Parameters are dealt into buckets, the last ones first, as a backward pass reaches them. When
// every gradient of a bucket has come, the bucket sets out; buckets set out in one order, the same
// on all ranks. Gradients may come in several parts (recompute.h): what comes after a bucket has
// set out is summed at the end, and from the next step on those parameters wait for the end, on all
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lacuna/train/group.h"

namespace lacuna {

class GradientSum {
 public:
  static constexpr int64_t kBucketBytes = 4 << 20;

  // parameters: those that are trained, with gradients; the group outlives it.
  GradientSum(std::vector<at::Tensor> parameters, Group& group, int64_t bytes = kBucketBytes);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // Before the backward pass that completes the gradients.
  void begin();
  // Behind it: the gradients and `also`, a scalar, are now the sums over all ranks. is_recorded: a
  // recording cannot ask the others whether something came late; by the steps before it, all know
  // what does.
  void finish(const at::Tensor& also, bool is_recorded = false);
  // Instead: the pass was broken off, and the gradients mean nothing.
  void abandon();

 private:
  struct Bucket {
    std::vector<size_t> members = {};  // numbers of parameters
    size_t missing = 0;                // members whose gradient has not come in this pass
    at::Tensor flat = {};              // what is under way; undefined: has not set out
  };
  struct Hook;
  void deal();               // parameters into buckets
  void come(size_t number);  // the gradient of a parameter
  void set_out(Bucket& bucket);
  void put_back(const Bucket& bucket) const;
  void sum_late();

  std::vector<at::Tensor> parameters_;
  Group& group_;
  int64_t bytes_;
  bool is_open_ = false;           // between begin() and finish()
  std::vector<Bucket> buckets_;    // the last one waits for the end
  size_t next_ = 0;                // the bucket that sets out next
  std::vector<size_t> bucket_of_;  // [parameters]
  std::vector<uint8_t> waits_;     // [parameters] comes in several parts
  std::vector<uint8_t> has_come_;  // [parameters] in this pass
  std::vector<uint8_t> is_late_;   // [parameters] came after its bucket had set out
};

}  // namespace lacuna
