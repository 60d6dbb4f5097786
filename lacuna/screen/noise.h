// How noisy measured labels are, as far as samples that were measured several times tell, and the
// best score that this leaves to any model.
//
// A measurement is the sample's true value and noise. Repeats of the same sample differ by noise
// alone, so the variance within sets of repeats, pooled, is the noise's. Where v is the variance of
// the labels that a model is scored on and e that of their noise, even a model that knows every
// true value reaches a Pearson correlation of only sqrt(1 - e / v): the noise ceiling.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/screen/samples.h"

namespace lacuna {

struct LabelNoise {
  std::string label;
  // The samples it is about: those of one category of a column (different screens have different
  // scales). Both empty: all.
  std::string column = {}, category = {};
  double variance = 0;   // of one measurement
  uint64_t sets = 0;     // sets of repeats that it was estimated from
  uint64_t repeats = 0;  // measurements in those sets
};

// Fewer sets of repeats say too little: such noise is not kept.
inline constexpr uint64_t kFewestRepeatSets = 10;

// The column that says of how many measurements a sample's label is the mean, and the one with
// their standard deviation. Slashes of the label become '_': these are names of files.
std::string repeat_count_column(const std::string& label);
std::string repeat_sd_column(const std::string& label);

// Of the measured ones among `chosen`. Nothing where the noise of one of them is not known, or
// fewer than two are measured, or they have no spread.
std::optional<double> noise_ceiling(const Samples& samples, std::span<const LabelNoise> noise,
                                    uint64_t label, std::span<const uint64_t> chosen);

// Those of several screens together: what is about the same samples is pooled.
std::vector<LabelNoise> joined_noise(std::span<const LabelNoise> all);

Json to_json(std::span<const LabelNoise> noise);
std::vector<LabelNoise> noise_from_json(const Json& json);  // throws Json::exception

}  // namespace lacuna
