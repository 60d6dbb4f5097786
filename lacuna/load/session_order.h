// Which windows of many sessions are in which batch: a pure function of (seed, epoch, rank, world
// size, position), as order.h is for samples that are all alike.
//
//   const SessionOrder order({0, 5000, 90000}, {.global_batch = 256, .mix = SessionMix::balanced});
//   Loader<RecordingSource, SessionOrder> loader(source, order, {.threads = 2, .prefetch = 4});
//
// Which session comes at which place is fair in every prefix (session_shares.h), whatever the world
// size: ranks take slices of the global batches, as in order.h. Within a session the windows come
// in a permutation of its own, renewed when it is used up. Both run on across epochs: an epoch is
// so many batches, and no window of a session comes again before all others of it have come.
//
//   SessionMix::proportional   by the number of windows: an epoch visits each once
//   SessionMix::balanced       all sessions equally often
//   SessionMix::weighted       by `weights`
//
// one_session: all windows of a global batch are of one session, and shares count batches.
//
// With `column`, a weight a window (its contrast, say), windows are drawn with replacement within
// their session, in proportion to it; proportional then means by the sum of the column. There is no
// bound on their number: prefix sums are kept in f64, one a block of windows.
//
// Everything but seed, rank and world belongs to the order's words, which a state carries: a state
// from another mix, other weights or other sessions is refused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lacuna/load/loader.h"
#include "lacuna/load/session_shares.h"

namespace lacuna {

enum class SessionMix : uint8_t { proportional, balanced, weighted };
std::string_view name(SessionMix mix);
SessionMix session_mix_from_name(std::string_view name);  // throws Error, listing them

struct SessionOrderSettings {
  uint64_t global_batch = 256;  // windows of all ranks together
  uint64_t seed = 0;
  bool shuffled = true;  // false: the windows of a session in their own order
  SessionMix mix = SessionMix::proportional;
  std::vector<double> weights = {};  // [sessions], weighted: any unit; 0: never drawn
  bool one_session = false;          // a batch
  uint64_t steps = 0;                // batches an epoch; 0: as many as hold all windows once
  std::shared_ptr<const std::vector<float>> column = {};  // [windows]
  uint32_t rank = 0;                                      // below world
  uint32_t world = 1;
};

class SessionOrder {
 public:
  // first [sessions + 1]: the windows of session s are first[s] .. first[s + 1] - 1; a session may
  // have none. Throws Error when there is nothing to visit, for weights that do not fit the
  // sessions, a weighted session without windows, and as Order does.
  SessionOrder(std::vector<uint64_t> first, const SessionOrderSettings& settings);

  uint64_t windows() const { return first_.back(); }
  uint64_t samples() const { return samples_; }  // windows drawn in an epoch
  const SessionOrderSettings& settings() const { return settings_; }
  uint64_t batches() const { return batches_; }  // in an epoch, the same on every rank
  uint64_t largest_batch() const;                // of this rank
  // Replaces `out` by the numbers of this rank's windows, position < batches().
  void batch(uint64_t epoch, uint64_t position, std::vector<uint64_t>& out) const;
  // "balanced, 3 sessions, 90,000 windows, 0123456789abcdef"
  const std::string& words() const { return words_; }

 private:
  friend SessionOrder with_seed(const SessionOrder& order, uint64_t seed);
  struct Column;

  std::vector<uint64_t> first_;
  SessionOrderSettings settings_;
  uint64_t samples_ = 0, batches_ = 0;
  std::shared_ptr<const SessionShares> shares_;
  std::shared_ptr<const Column> column_;
  std::string words_;
};

LoaderState state_at(const SessionOrder& order, uint64_t epoch, uint64_t position);
void check_state(const LoaderState& state, const SessionOrder& order);
SessionOrder with_seed(const SessionOrder& order, uint64_t seed);

// Weights a session from weights a subject: a subject's is divided among its sessions by their
// windows. Throws Error, listing them, for a subject that no session has; one that is not named
// has weight 0.
std::vector<double> weights_of_subjects(const std::map<std::string, double>& weights,
                                        std::span<const std::string> subject_of_session,
                                        std::span<const uint64_t> first);

// Weights a session by name: of sessions, else of subjects as above. Throws Error, listing them,
// for a name that neither has.
std::vector<double> weights_of_names(std::span<const std::pair<std::string, double>> weights,
                                     std::span<const std::string> sessions,
                                     std::span<const std::string> subject_of_session,
                                     std::span<const uint64_t> first);

// About `count` windows (all where there are fewer), ascending, to validate on: the same for the
// same arguments, in proportion to the sessions' windows, of every session that has any at least
// one.
std::vector<uint64_t> fixed_windows(std::span<const uint64_t> first, uint64_t count,
                                    uint64_t seed = 0);

}  // namespace lacuna
