// Which samples are in which batch: a pure function of (seed, epoch, rank, world size, position).
//
// An epoch visits each of n samples once. Its order is a keyed permutation of [0, n), computed one
// place at a time, so any position of any epoch is reached at once: nothing is stored, nothing
// replayed. With G = global_batch, global batch p of an epoch covers the places [p * G, (p + 1) *
// G) of its order, and is cut into one contiguous slice a rank, nearly equal: the first (size %
// world) ranks take one sample more. Hence
//   - all ranks together visit every sample exactly once an epoch;
//   - another number of ranks at the same global batch gives the same global batches in the same
//     order.
//
// The remainder: n is rarely a multiple of G.
//   Remainder::keep   the last global batch of an epoch is shorter and is cut by the same rule;
//                     when it has fewer samples than there are ranks, the last ranks get an empty
//                     batch, so that all ranks count the same batches
//   Remainder::drop   that batch is left out: n % G samples, others in every epoch, are not visited
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lacuna/core/random.h"

namespace lacuna {

// A permutation of [0, n) drawn by (seed, epoch); place -> sample. The same on every machine.
//
// A Feistel network on a grid: a number is a row and a column of a nearly square grid with at least
// n cells, and every round moves the row by a hash of the column or the column by a hash of the
// row, which is a bijection whatever the hash gives. The few results beyond n (less than one in
// sqrt(n)) go through it again until they land below n.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed, uint64_t epoch)
      : n_(n),
        columns_(uint64_t(std::ceil(std::sqrt(double(n))))),
        rows_((n + columns_ - 1) / columns_),
        rounds_(n < 1024 ? kMostRounds : 6) {
    Random random(seed, epoch);
    for (int round = 0; round < rounds_; ++round) keys_[round] = random.next();
  }

  // place < n
  uint64_t operator()(uint64_t place) const {
    do place = step(place);
    while (place >= n_);
    return place;
  }

 private:
  static constexpr int kMostRounds = 16;  // a small grid mixes slowly

  uint64_t step(uint64_t x) const {
    uint64_t row = x / columns_, column = x % columns_;
    for (int round = 0; round < rounds_; round += 2) {
      row = move(row, mix64(column + keys_[round]), rows_);
      column = move(column, mix64(row + keys_[round + 1]), columns_);
    }
    return row * columns_ + column;
  }

  // x + (hash scaled to [0, size)) modulo size. Without a branch: this is most of the time a small
  // batch takes.
  static uint64_t move(uint64_t x, uint64_t hash, uint64_t size) {
    x += (hash >> 32) * size >> 32;
    return std::min(x, x - size);  // x - size is huge where x < size
  }

  uint64_t n_, columns_, rows_;
  int rounds_;
  std::array<uint64_t, kMostRounds> keys_;
};

enum class Remainder : uint8_t { keep, drop };

struct OrderSettings {
  uint64_t global_batch = 28;  // samples of all ranks together
  uint64_t seed = 0;
  bool shuffled = true;  // false: 0, 1, 2, ... in every epoch, whatever the seed
  Remainder remainder = Remainder::keep;
  uint32_t rank = 0;  // below world
  uint32_t world = 1;
};

class Order {
 public:
  // Throws Error when there is nothing to visit, rank is not below world, or global_batch is less
  // than one sample a rank.
  Order(uint64_t samples, const OrderSettings& settings);

  uint64_t samples() const { return samples_; }
  const OrderSettings& settings() const { return settings_; }
  // Batches in an epoch, at least 1; the same on every rank.
  uint64_t batches() const { return batches_; }
  // The largest batch that this rank gets.
  uint64_t largest_batch() const;

  // Where this rank's samples stand in the global batch at a position: `first` of `all`.
  struct Share {
    uint64_t first, all;
  };
  Share share(uint64_t position) const;

  // Replaces `out` by this rank's samples of a batch, position < batches(). May be empty, see
  // Remainder::keep.
  void batch(uint64_t epoch, uint64_t position, std::vector<uint64_t>& out) const;

 private:
  uint64_t samples_;
  OrderSettings settings_;
  uint64_t batches_;
};

}  // namespace lacuna
