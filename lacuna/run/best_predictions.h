// The K largest (or most negative) of many predictions, met one after another: memory for K.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

struct BestSample {
  uint64_t number;               // its place among all that were met
  std::vector<uint32_t> genes;   // removed
  std::vector<float> predicted;  // [L]
};

class BestPredictions {
 public:
  // Ranked by label number `label`; `lowest`: the most negative come first.
  BestPredictions(uint64_t count, uint64_t label, bool lowest);

  void add(std::span<const uint32_t> genes, std::span<const float> predicted);
  // The best first; of equal ones the first met. A NaN is worse than any number. Leaves this empty.
  std::vector<BestSample> take();

 private:
  bool is_better(float a, uint64_t a_number, float b, uint64_t b_number) const;

  uint64_t count_, label_;
  bool lowest_;
  uint64_t met_ = 0;
  std::vector<BestSample> heap_;  // the worst of them at the front
};

}  // namespace lacuna
