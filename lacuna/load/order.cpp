#include "lacuna/load/order.h"

#include <algorithm>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// Where the slice of a rank begins in a global batch of `size`; that of rank + 1 is where it ends.
uint64_t slice_begin(uint64_t size, uint32_t world, uint32_t rank) {
  return size / world * rank + std::min<uint64_t>(rank, size % world);
}

}  // namespace

Order::Order(uint64_t samples, const OrderSettings& settings)
    : samples_(samples), settings_(settings) {
  const auto& [global_batch, seed, shuffled, remainder, rank, world] = settings_;
  if (samples == 0) throw Error("no samples to load: is the chosen part of the split empty?");
  if (rank >= world) {
    throw Error("rank {} of {}: ranks go from 0 to world size - 1", rank, world);
  }
  if (global_batch < world) {
    throw Error("global batch {} gives some of the {} ranks nothing; it must be {} or more",
                global_batch, world, world);
  }
  batches_ = samples / global_batch;
  if (remainder == Remainder::keep && samples % global_batch != 0) ++batches_;
  if (batches_ == 0) {
    throw Error(
        "no full batch: {} samples, global batch {}, and the remainder is dropped; choose a "
        "smaller batch or keep the remainder",
        samples, global_batch);
  }
}

uint64_t Order::largest_batch() const {
  const uint64_t size = std::min(settings_.global_batch, samples_);
  return slice_begin(size, settings_.world, settings_.rank + 1) -
         slice_begin(size, settings_.world, settings_.rank);
}

Order::Share Order::share(uint64_t position) const {
  const uint64_t size =
      std::min(settings_.global_batch, samples_ - position * settings_.global_batch);
  return {slice_begin(size, settings_.world, settings_.rank), size};
}

void Order::batch(uint64_t epoch, uint64_t position, std::vector<uint64_t>& out) const {
  LACUNA_ASSERT(position < batches_);
  const uint64_t first = position * settings_.global_batch;
  const uint64_t size = std::min(settings_.global_batch, samples_ - first);
  const uint64_t begin = first + slice_begin(size, settings_.world, settings_.rank);
  const uint64_t end = first + slice_begin(size, settings_.world, settings_.rank + 1);
  out.resize(end - begin);
  if (!settings_.shuffled) {
    for (uint64_t place = begin; place < end; ++place) out[place - begin] = place;
    return;
  }
  const Permutation permutation(samples_, settings_.seed, epoch);
  for (uint64_t place = begin; place < end; ++place) out[place - begin] = permutation(place);
}

}  // namespace lacuna
