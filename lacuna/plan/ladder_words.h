// The reasons of a plan, in words.
#pragma once

#include <string>

#include "lacuna/plan/ladder_plan.h"

namespace lacuna {

// Sets reason, masks_reason and notes of a plan that has its rungs and picks.
void explain(const Machine& machine, LadderPlan& plan);

// "1 epoch", "12 epochs": as many whole ones as it takes.
std::string format_epochs(double count);
// "0.41 ms", "12.3 ms", "0.0031 ms": three digits.
std::string format_milliseconds(double seconds);
// "3.10 ms", "0.35 s", "12 s", "3 min 20 s", "25 days".
std::string format_seconds(double seconds);

}  // namespace lacuna
