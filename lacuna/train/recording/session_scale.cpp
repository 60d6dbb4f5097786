#include "lacuna/train/recording/session_scale.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

// Scales of a long session come of so many stretches of consecutive windows, evenly spread: 65,536
// windows say what a mean is to be known to, and a start does not take longer for more of them.
constexpr uint64_t kScaleWindows = 1024, kScaleStretches = 64;

struct ScaleSums {
  std::vector<double> spikes, valid, inputs, squares;
  double rows = 0;
};

SessionScale finish(const ScaleSums& sums) {
  SessionScale scale;
  for (size_t u = 0; u < sums.spikes.size(); ++u)
    scale.mean_counts.push_back(sums.spikes[u] / std::max(sums.valid[u], 1.0));
  for (size_t k = 0; k < sums.inputs.size(); ++k) {
    const double mean = sums.inputs[k] / sums.rows;
    const double variance = sums.squares[k] / sums.rows - mean * mean;
    scale.input_mean.push_back(mean);
    scale.input_sd.push_back(variance > 1e-12 * (1 + mean * mean) ? std::sqrt(variance) : 1);
  }
  return scale;
}

void add(const SessionPart& part, ScaleSums& sums) {
  if (sums.spikes.empty()) {
    sums.spikes.resize(part.units);
    sums.valid.resize(part.units);
  }
  for (size_t i = 0; i < part.counts.size(); ++i) {
    sums.valid[i % part.units] += part.validity[i];
    if (part.validity[i]) sums.spikes[i % part.units] += part.counts[i];
  }
  size_t first = 0;
  for (const std::vector<float>& input : part.inputs) {
    const size_t columns = input.size() / std::max<uint64_t>(part.windows, 1);
    sums.inputs.resize(std::max(sums.inputs.size(), first + columns));
    sums.squares.resize(sums.inputs.size());
    for (size_t i = 0; i < input.size(); ++i) {
      sums.inputs[first + i % columns] += input[i];
      sums.squares[first + i % columns] += double(input[i]) * input[i];
    }
    first += columns;
  }
  sums.rows += double(part.windows);
}

// One pass over counts and behaviour of the training part.
SessionScale scale_of(const WindowFields& fields, const Windows& training, uint32_t session) {
  const auto [first, last] = training.of_session(session);
  const uint64_t stretches = (last - first + kScaleWindows - 1) / kScaleWindows;
  const uint64_t taken = std::min(stretches, kScaleStretches);
  ScaleSums sums;
  WindowBatch batch;
  for (uint64_t i = 0; i < taken; ++i) {
    throw_if_stopped();
    const uint64_t begin = first + stretches * i / taken * kScaleWindows;
    batch.windows.resize(std::min(kScaleWindows, last - begin));
    std::iota(batch.windows.begin(), batch.windows.end(), begin);
    fields.fill(batch);
    add(batch.parts.at(0), sums);
  }
  return finish(sums);
}

}  // namespace

std::vector<SessionScale> find_scales(const WindowFields& fields, const Windows& training,
                                      const std::vector<uint32_t>& sessions) {
  std::vector<SessionScale> scales(sessions.size());
  std::vector<std::exception_ptr> errors(sessions.size());
  parallel_for(sessions.size(), 0, [&](uint64_t s) {
    try {
      scales[s] = scale_of(fields, training, sessions[s]);
    } catch (...) {
      errors[s] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return scales;
}

}  // namespace lacuna
