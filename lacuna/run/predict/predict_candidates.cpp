#include "lacuna/run/predict/predict_candidates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/run/predict/prediction_file.h"

namespace lacuna {
namespace {

// Hears each sample and its predictions [L], in order.
using Sink = std::function<void(std::span<const uint32_t> genes, std::span<const float> predicted)>;

struct Batch {
  std::vector<std::vector<uint32_t>> samples;  // the first `size` of them; the rest is room
  uint64_t size = 0;
  std::vector<int32_t> removed = {}, ptr = {};

  bool fill(Candidates& candidates) {
    for (size = 0; size < samples.size() && candidates.next(samples[size]);) ++size;
    removed.clear();
    ptr.assign(1, 0);
    for (uint64_t b = 0; b < size; ++b) {
      removed.insert(removed.end(), samples[b].begin(), samples[b].end());
      ptr.push_back(int32_t(removed.size()));
    }
    return size > 0;
  }
};

void ask(Candidates& candidates, const BatchPredictor& predict, const PredictionTask& task,
         const Sink& sink, Progress& progress) {
  const uint64_t labels = task.labels.size();
  Batch batch = {.samples = std::vector<std::vector<uint32_t>>(task.batch)};
  uint64_t done = 0;
  progress.begin("predicting", candidates.size(), "samples");
  try {
    while (batch.fill(candidates)) {
      throw_if_stopped();
      const std::vector<float> predicted = predict(batch.removed, batch.ptr);  // [B, L]
      LACUNA_ASSERT(predicted.size() == batch.size * labels);
      for (uint64_t b = 0; b < batch.size; ++b)
        sink(batch.samples[b], std::span(predicted).subspan(b * labels, labels));
      progress.advance(done += batch.size);
    }
  } catch (const Stopped&) {
    throw Error("stopped after {} of {} samples; {} was not written", done, candidates.size(),
                task.out.string());
  }
  progress.end();
}

// What the file says of itself; empty where it holds all there is.
std::string note_of(const PredictionTask& task, uint64_t rows) {
  if (!task.shard) return {};
  PredictionShard about = *task.shard;
  about.rows = rows;
  if (task.top) {
    about.top = task.top->count;
    about.lowest = task.top->lowest;
    about.label = task.top->label;
  }
  return shard_note(about);
}

}  // namespace

uint64_t predict_candidates(Candidates& candidates, const BatchPredictor& predict,
                            const PredictionTask& task, Progress& progress) {
  if (task.batch == 0) throw Error("a batch of 0 samples: it must be 1 or more");
  const uint64_t kept = task.top ? std::min(task.top->count, candidates.size()) : candidates.size();
  const auto file = create_prediction_file(task.out, {.genes = task.genes,
                                                      .labels = task.labels,
                                                      .samples = kept,
                                                      .widest = candidates.widest(),
                                                      .note = note_of(task, kept)});
  if (task.top) {
    BestPredictions best(kept, task.top->label, task.top->lowest);
    const Sink sink = [&](auto genes, auto predicted) { best.add(genes, predicted); };
    ask(candidates, predict, task, sink, progress);
    for (const BestSample& sample : best.take()) file->add(sample.genes, sample.predicted);
  } else {
    const Sink sink = [&](auto genes, auto predicted) { file->add(genes, predicted); };
    ask(candidates, predict, task, sink, progress);
  }
  file->close();
  return kept;
}

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
