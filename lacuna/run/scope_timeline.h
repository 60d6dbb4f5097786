// Who owned a thread's time, moment by moment: what the Scopes of core/scope.h tell, as a timeline.
//
// Time belongs to the innermost open scope, so the owners exclude each other and their times add up
// to the whole. Scopes of other threads than the one that called start() are not heard.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/scope.h"

namespace lacuna {

class ScopeTimeline : public ScopeListener {
 public:
  struct Border {
    double ms;          // since the first border
    const char* owner;  // of the time from here to the next border; null: nobody
  };

  // now: milliseconds of a clock that never goes back; empty: the system's.
  // on_border: called at every border, to mark the same place on another clock (a GPU's).
  explicit ScopeTimeline(std::function<double()> now = {}, std::function<void()> on_border = {});
  ~ScopeTimeline() override;

  // Listens from start() to stop(), both in one thread and with no scope open. Starting again
  // forgets what was heard before.
  void start();
  void stop();
  void enter(const char* name) override;
  void leave() override;
  void way(const char* words) override { ways_.insert(words); }

  // The last one is the end.
  std::span<const Border> borders() const { return borders_; }
  const std::set<std::string>& ways() const { return ways_; }  // that were told of

 private:
  void add_border();

  std::function<double()> now_;
  std::function<void()> on_border_;
  double begin_ = 0;
  std::vector<const char*> open_;  // innermost last
  std::vector<Border> borders_;
  std::set<std::string> ways_;
};

// Milliseconds by owner ("" = nobody); times [borders] says when each border was.
std::map<std::string, double> time_by_owner(std::span<const ScopeTimeline::Border> borders,
                                            std::span<const double> times);
std::map<std::string, double> time_by_owner(std::span<const ScopeTimeline::Border> borders);

}  // namespace lacuna
