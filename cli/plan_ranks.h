// `lacuna plan --ranks R --profile DIRECTORY`: how long a step of so many ranks takes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/plan/rank_plan.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna::cli {

struct RankPlanArguments {
  uint64_t ranks = 1, batch = 0;   // samples, or windows, of all ranks together
  std::vector<fs::path> profiles;  // folders of `lacuna profile --out`, or their files
  std::string link;                // "25GB" a second; empty: measured
};

// What is planned for, and whether a profile was measured on it.
struct ProfiledData {
  std::string kind;  // "screen" or "recording", as in a profile
  fs::path path;
  std::function<bool(const Fingerprint& profiled)> is_same;
};

// Nothing where no profiles are given. Throws UsageError where they do not go with the other
// arguments, Error where a profile is of other data, or measured something else than is needed.
std::optional<RankPlan> rank_plan(const RankPlanArguments& arguments, const ProfiledData& data,
                                  const Machine& machine);

// The plan in words, or how to get one.
void print_ranks(const RankPlanArguments& arguments, const std::optional<RankPlan>& plan);

}  // namespace lacuna::cli
