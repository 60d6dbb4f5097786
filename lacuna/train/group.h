// The processes that train together, called ranks: one, or one a GPU (ranks/process_group.h).
//
// Every rank opens the same data, has a copy of the model, and takes its share of each global batch
// (load/order.h). Sums of gradients, losses and predictions make them one training: every rank
// takes the same steps and has the same weights, bit for bit. Rank 0 alone writes and speaks.
//
// All ranks make the same calls of sum(), broadcast() and barrier() in the same order, with tensors
// of the same shapes; each waits there for the others. Where another rank has gone they throw
// RankLost.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "lacuna/core/error.h"

namespace lacuna {

// Another rank has died or failed: no collective call can succeed from then on.
class RankLost : public Error {
 public:
  explicit RankLost(const std::string& words) : Error("{}", words) {}
};

class Group {
 public:
  virtual ~Group() = default;
  virtual uint32_t rank() const = 0;                      // from 0 on
  virtual uint32_t world() const = 0;                     // how many ranks there are
  virtual uint32_t local_rank() const { return rank(); }  // among those of this host
  // In place: the sum over all ranks, the same bits on each of them.
  virtual void sum(at::TensorList tensors) = 0;
  // The same of one tensor, while the caller goes on: it is not to be touched before finish_sum().
  virtual void start_sum(const at::Tensor& tensor) { sum(tensor); }
  virtual void finish_sum(const at::Tensor& /*tensor*/) {}
  // In place: those of rank 0.
  virtual void broadcast(at::TensorList tensors) = 0;
  virtual void barrier() = 0;

  virtual bool is_alone() const { return world() == 1; }
  // Whether its sums may be part of a step that is recorded on a GPU (step.h).
  virtual bool can_be_recorded() const { return is_alone(); }
  bool is_first() const { return rank() == 0; }  // who writes
  int64_t first_says(int64_t value);             // what rank 0 gave, on every rank
  bool any(bool value);                          // whether it is true on one of them

  static Group& alone();  // one process
};

// ---- when a rank is lost; for the whole process, from any thread
// Another rank has gone, in words. Every collective call throws from then on, and work under way
// stops as after a signal, also inside a HeldStop: nobody waits for the lost one.
void lose_rank(const std::string& words);
// Throws RankLost with those words; Stopped where a stop was asked for before: then others have
// left for the same reason.
void throw_if_rank_lost();

// Where work in Python has failed: a stop inside it, and the loss of a rank, come as Python's
// error. Throws what is behind it, if anything is.
void throw_if_stop_was_meant();

// While one lives a stop waits, as with Unstoppable, but not behind lose_rank(). One at a time.
class HeldStop {
 public:
  HeldStop();
  ~HeldStop();
  HeldStop(const HeldStop&) = delete;
  HeldStop& operator=(const HeldStop&) = delete;
};

// Hears what the user should know: "no GPU in this build, training on the CPU".
using Note = std::function<void(const std::string&)>;

// `cpu`, `cuda` (the GPU of the rank's number on its host) or `auto`. Throws Error for another word
// and when it cannot be had; auto says what it takes. Ranks share GPUs only where `cuda` is asked
// for by name: they gain nothing by it but a try of several ranks.
at::Device choose_device(const std::string& name, const Note& note,
                         const Group& group = Group::alone());

}  // namespace lacuna
