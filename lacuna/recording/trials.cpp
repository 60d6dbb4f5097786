#include "lacuna/recording/trials.h"

#include <cmath>

#include "lacuna/recording/field_values.h"

namespace lacuna {

std::vector<Stretch> find_stretches(const Session& session, const Segment& segment,
                                    double most_gap) {
  const uint64_t frames = segment.frames;
  std::vector<uint8_t> starts(frames, 0),
      is_outside(frames, 0);  // a row begins a stretch; is in none
  std::vector<int64_t> trial(frames, -1);
  bool is_first = true;
  for (const Field& field : segment.fields) {
    if (field.role != FieldRole::trial) continue;
    std::vector<int64_t> numbers = read_whole_numbers(field);
    for (uint64_t t = 0; t < frames; ++t) {
      is_outside[t] |= uint8_t(numbers[t] < 0);
      if (t > 0 && numbers[t] != numbers[t - 1]) starts[t] = 1;
    }
    if (is_first) trial = std::move(numbers);
    is_first = false;
  }
  if (const Field* time = segment.find(FieldRole::time)) {
    const std::vector<double> seconds = read_numbers(*time);
    const double most = most_gap / session.rate;
    for (uint64_t t = 0; t < frames; ++t) {
      is_outside[t] |= uint8_t(!std::isfinite(seconds[t]));
      const double step = t > 0 ? seconds[t] - seconds[t - 1] : 0;
      if (t > 0 && !(step > 0 && step <= most)) starts[t] = 1;
    }
  }
  std::vector<Stretch> stretches;
  for (uint64_t t = 0; t < frames; ++t) {
    if (is_outside[t]) continue;
    if (t == 0 || starts[t] || is_outside[t - 1]) stretches.push_back({t, t, trial[t]});
    stretches.back().end = t + 1;
  }
  return stretches;
}

}  // namespace lacuna
