// What a training step would take on several ranks: time and memory, from measured parts.
//
//   arithmetic      a step of one process with a rank's share of the batch, as `lacuna profile`
//                   measured it. Where all ranks together have more threads than the host has
//                   cores, they wait for each other.
//   communication   gradients are summed around a ring: with R ranks each sends 2 (R - 1) / R of
//                   their bytes; that over the link is the floor. Every sum waits for 2 (R - 1)
//                   messages on top. A step has a sum a bucket of gradients, and kOtherSums.
//   hidden          buckets set out while the backward pass goes on, all but the last one. On a
//                   CPU whose cores are all busy the sums need the same cores: nothing is hidden.
//
// A step of R ranks is arithmetic + communication - hidden. It leaves out that some rank is always
// the slowest, and validation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/plan/link.h"

namespace lacuna {

// What `lacuna profile` found out about one process.
struct MeasuredStep {
  std::string from;             // the file
  uint64_t batch = 0;           // samples
  double ms = 0;                // a step
  double backward_ms = 0;       // of it
  uint64_t gradient_bytes = 0;  // of all that is trained
  uint64_t buckets = 1;         // that they are summed in, at least 1
  uint64_t peak_bytes = 0;      // of the process, or on its GPU; 0: not known
  int threads = 1;              // that it computes with, on the CPU
  bool is_on_gpu = false;
};

// The loss's divisor, the loss with what is left of the gradients, whether anybody is to stop.
inline constexpr uint64_t kOtherSums = 3;

struct RankPlan {
  uint64_t ranks = 1, batch = 0, share = 0;  // samples of all ranks together, and of the largest
  MeasuredStep step;                         // with `share` samples
  double crowding = 1;                       // how much longer arithmetic takes: threads per core
  double arithmetic_ms = 0;
  double sent_bytes = 0;  // a rank, a step
  double floor_ms = 0;    // those over the link
  double communication_ms = 0, hidden_ms = 0;
  double step_ms = 0;
  std::optional<double> alone_ms;  // a step of one process with the whole batch, where measured
  double memory_bytes = 0;         // a rank's; 0: not known
  std::string lacks;               // what memory is missing, with the numbers; empty: it fits
  Link link;
};

// measured: one process each, one of them with a rank's share of the batch; with the whole batch:
// what ranks are compared with. Throws Error that says what to measure where it is missing.
RankPlan plan_ranks(uint64_t ranks, uint64_t batch, std::span<const MeasuredStep> measured,
                    const Machine& machine, const Link& link);

// For people, a sentence each.
std::vector<std::string> words_of(const RankPlan& plan);
Json to_json(const RankPlan& plan);

}  // namespace lacuna
