// How well rates predict the counts of a recording's units.
//
//   bits per spike   (log likelihood of the counts under the rates - under the unit's mean rate of
//                    training) / (spikes * log 2), Poisson; 0: no better than the mean
//   correlation      Pearson of rates and counts, row by row
//   noise ceiling    the highest correlation that any rates could reach, where stimuli repeat: the
//                    root of signal power / total power (Sahani and Linden, 2003)
//
// Both scores come from sums over rows, which are kept by trial: what a bootstrap over trials draws
// is then a sum of sums. Counts that are not valid are left out. What is not defined is NaN: no
// spike, no spread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"

namespace lacuna {

// Of one unit, over some rows.
struct UnitSums {
  double rows = 0, spikes = 0, rate = 0;
  double gain = 0;  // log likelihood of the counts under the rates - under the mean rate
  double rate2 = 0, count2 = 0, product = 0;

  // mean: the rate that is compared with; rates that are the mean itself gain 0, exactly.
  void add(double rate, double count, double mean);
  UnitSums& operator+=(const UnitSums& other);
  UnitSums operator*(double times) const;  // as many copies of these rows
};

// Of the mean count a row in training: the rate that is compared with, as rates are held (float). A
// unit that never fired has a little one.
double compared_rate(double mean_count);
double bits_gained(const UnitSums& sums);  // over the mean rate, all spikes together
double bits_per_spike(const UnitSums& sums);
double correlation(const UnitSums& sums);

// Of a session: bits of all units by spikes of all units; the mean of the units' correlations that
// are defined. units: [units]
struct SessionScores {
  double bits_per_spike = kNotDefined;
  double correlation = kNotDefined;
  uint64_t rows = 0, spikes = 0;
};
SessionScores session_scores(std::span<const UnitSums> units);

// One presentation of a stimulus that is shown several times: counts of one unit, row by row.
// Repeats are cut to the shortest. NaN where fewer than two repeat, or no power is left for the
// signal: then the responses tell nothing of the stimulus.
double noise_ceiling(const std::vector<std::vector<float>>& repeats);
// Of several stimuli together: powers add up by rows. stimuli: [stimuli][repeats][rows]
double noise_ceiling(const std::vector<std::vector<std::vector<float>>>& stimuli);

}  // namespace lacuna
