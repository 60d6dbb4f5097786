// Which session is drawn when, so that every prefix is fair: of the first n draws, session s has
// n * share(s) to within less than one, for every n and s at once.
//
//   const SessionShares shares({3, 1, 1});  // three of five draws are session 0
//   shares.draws(first, count, out);        // draws first .. first + count - 1 of an endless row
//
// The j-th draw of a session may come no earlier and no later than that bound allows; of those that
// may come, the one that must come first is taken (earliest deadline, which always succeeds: the
// chairman assignment problem). The row has a period, the sum of the shares. Places are found from
// counts kept at every kStep-th draw, which are filled in as far as has been asked for: about 30 ns
// a draw with 30 sessions, once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lacuna {

struct SessionDraw {
  uint32_t session = 0;
  uint64_t occurrence = 0;  // how often the session was drawn before
};

// Whole numbers in proportion to `weights`: exact where their ratios are those of numbers that add
// up to at most 10,000, else to a 16-millionth. Throws Error for a weight that is negative or not
// finite, and where none is above 0.
std::vector<uint64_t> shares_from_weights(std::span<const double> weights);

// Copies share what has been filled in. May be used by several threads at once.
class SessionShares {
 public:
  static constexpr uint64_t kStep = 1024;  // draws between two kept counts

  explicit SessionShares(std::vector<uint64_t> shares);  // at least one above 0

  const std::vector<uint64_t>& shares() const;  // divided by what they have in common
  uint64_t period() const;                      // their sum
  void draws(uint64_t first, uint64_t count, std::vector<SessionDraw>& out) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lacuna
