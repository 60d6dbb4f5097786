#include "lacuna/run/best_predictions.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lacuna {

BestPredictions::BestPredictions(uint64_t count, uint64_t label, bool lowest)
    : count_(count), label_(label), lowest_(lowest) {}

bool BestPredictions::is_better(float a, uint64_t a_number, float b, uint64_t b_number) const {
  if (std::isnan(a) != std::isnan(b)) return std::isnan(b);
  if (a < b || a > b) return lowest_ ? a < b : a > b;
  return a_number < b_number;
}

void BestPredictions::add(std::span<const uint32_t> genes, std::span<const float> predicted) {
  const uint64_t number = met_++;
  const auto better = [&](const BestSample& a, const BestSample& b) {
    return is_better(a.predicted[label_], a.number, b.predicted[label_], b.number);
  };
  if (heap_.size() == count_) {
    if (count_ == 0) return;
    const BestSample& worst = heap_.front();
    if (!is_better(predicted[label_], number, worst.predicted[label_], worst.number)) return;
    std::pop_heap(heap_.begin(), heap_.end(), better);
    heap_.pop_back();
  }
  heap_.push_back({number, {genes.begin(), genes.end()}, {predicted.begin(), predicted.end()}});
  std::push_heap(heap_.begin(), heap_.end(), better);
}

std::vector<BestSample> BestPredictions::take() {
  std::sort(heap_.begin(), heap_.end(), [&](const BestSample& a, const BestSample& b) {
    return is_better(a.predicted[label_], a.number, b.predicted[label_], b.number);
  });
  return std::exchange(heap_, {});
}

}  // namespace lacuna
