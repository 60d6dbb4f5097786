#include "lacuna/load/session_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// Products of two of them fit into 64 bits.
constexpr uint64_t kMostPeriod = uint64_t(1) << 31;

// The draws of a row one after another, from counts that are known.
class ShareRow {
 public:
  ShareRow(std::span<const uint64_t> shares, uint64_t period, uint64_t drawn,
           std::span<const uint32_t> counts)
      : shares_(shares), period_(period), drawn_(drawn), counts_(counts.begin(), counts.end()) {
    earliest_.resize(shares.size());
    latest_.resize(shares.size());
    for (size_t s = 0; s < shares.size(); ++s) find_bounds(s);
  }

  SessionDraw next() {
    ++drawn_;  // this is draw number drawn_, from 1
    size_t best = 0;
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (size_t s = 0; s < shares_.size(); ++s) {
      const uint64_t latest = earliest_[s] <= drawn_ ? latest_[s] : least;
      if (latest < least) least = latest, best = s;
    }
    LACUNA_ASSERT(least >= drawn_ && least != std::numeric_limits<uint64_t>::max());
    const SessionDraw draw = {uint32_t(best), counts_[best]++};
    find_bounds(best);
    return draw;
  }
  std::span<const uint32_t> counts() const { return counts_; }

 private:
  // Of the session's next draw, the j-th: (j - 1) / share < its number <= ceil(j / share).
  void find_bounds(size_t s) {
    const uint64_t share = shares_[s], j = uint64_t(counts_[s]) + 1;
    if (share == 0) {
      earliest_[s] = std::numeric_limits<uint64_t>::max();
      return;
    }
    earliest_[s] = (j - 1) * period_ / share + 1;
    latest_[s] = (j * period_ + share - 1) / share;
  }

  std::span<const uint64_t> shares_;
  uint64_t period_, drawn_;
  std::vector<uint32_t> counts_;  // [sessions] within this period
  std::vector<uint64_t> earliest_, latest_;
};

std::vector<uint64_t> smallest(std::vector<uint64_t> shares) {
  const auto total = [&] { return std::accumulate(shares.begin(), shares.end(), uint64_t(0)); };
  uint64_t common = 0;
  for (const uint64_t share : shares) common = std::gcd(common, share);
  if (common == 0) throw Error("no session has a share: nothing can be drawn");
  for (uint64_t& share : shares) share /= common;
  while (total() >= kMostPeriod)
    for (uint64_t& share : shares) share = (share + 1) / 2;
  return shares;
}

}  // namespace

std::vector<uint64_t> shares_from_weights(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0)
      throw Error("weight {} of a session: it must be 0 or more, and finite", weight);
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum)) throw Error("no session has a weight above 0");
  constexpr uint64_t kMostExact = 10'000, kFine = uint64_t(1) << 24;
  const auto is_exact = [&](uint64_t total) {
    return std::ranges::all_of(weights, [&](double weight) {
      const double share = weight / sum * double(total);
      return std::abs(share - std::round(share)) < 1e-10 * double(total) &&
             (weight == 0 || std::round(share) > 0);
    });
  };
  uint64_t total = 1;
  while (total <= kMostExact && !is_exact(total)) ++total;
  if (total > kMostExact) total = kFine;
  std::vector<uint64_t> shares;
  for (const double weight : weights)
    shares.push_back(
        weight == 0 ? 0
                    : std::max<uint64_t>(1, uint64_t(std::round(weight / sum * double(total)))));
  return shares;
}

struct SessionShares::State {
  std::vector<uint64_t> shares;
  uint64_t period = 0;
  std::mutex mutex;
  std::vector<uint32_t> kept;  // [steps so far, sessions] counts before draw step * kStep
};

SessionShares::SessionShares(std::vector<uint64_t> shares) : state_(std::make_shared<State>()) {
  state_->shares = smallest(std::move(shares));
  state_->period = std::accumulate(state_->shares.begin(), state_->shares.end(), uint64_t(0));
  state_->kept.assign(state_->shares.size(), 0);
}

const std::vector<uint64_t>& SessionShares::shares() const { return state_->shares; }
uint64_t SessionShares::period() const { return state_->period; }

void SessionShares::draws(uint64_t first, uint64_t count, std::vector<SessionDraw>& out) const {
  const size_t sessions = state_->shares.size();
  out.clear();
  out.reserve(count);
  std::vector<uint32_t> counts(sessions);
  while (count > 0) {
    const uint64_t round = first / state_->period, place = first % state_->period;
    const uint64_t step = place / kStep;
    {
      const std::lock_guard lock(state_->mutex);
      std::vector<uint32_t>& kept = state_->kept;
      if (const uint64_t last = kept.size() / sessions - 1; last < step) {
        ShareRow row(state_->shares, state_->period, last * kStep,
                     std::span(kept).subspan(last * sessions, sessions));
        for (uint64_t at = last; at < step; ++at) {
          for (uint64_t i = 0; i < kStep; ++i) row.next();
          kept.insert(kept.end(), row.counts().begin(), row.counts().end());
        }
      }
      std::copy_n(kept.begin() + long(step * sessions), sessions, counts.begin());
    }
    ShareRow row(state_->shares, state_->period, step * kStep, counts);
    for (uint64_t i = step * kStep; i < place; ++i) row.next();
    const uint64_t here = std::min(count, state_->period - place);
    for (uint64_t i = 0; i < here; ++i) {
      SessionDraw draw = row.next();
      draw.occurrence += round * state_->shares[draw.session];
      out.push_back(draw);
    }
    first += here;
    count -= here;
  }
}

}  // namespace lacuna
