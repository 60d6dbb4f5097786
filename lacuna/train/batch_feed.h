// From a loader's batches to tensors on the model's device, one batch ahead.
//
// On a GPU a batch is laid into one of two sets of pinned buffers and copied while the model works
// on the batch before (fetch_ahead.h). A batch is valid until the next one is asked for. The
// destructor waits for the copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "lacuna/ladder/rung_source.h"
#include "lacuna/load/loader.h"
#include "lacuna/nn/gene_graph.h"
#include "lacuna/run/labels.h"
#include "lacuna/train/fetch_ahead.h"
#include "lacuna/train/task.h"

namespace lacuna {

struct DeviceBatch : Batch {
  ModelInput input;
  at::Tensor labels;              // [B, L] f32, standardised; NaN = not measured
  at::Tensor weights;             // [B] f32 of the loss; undefined = all 1
  std::vector<uint64_t> samples;  // [B] their numbers in the screen

  int64_t size() const override { return input.batch(); }
  std::unique_ptr<Batch> clone() const override;
  void assign(const Batch& other) override;
};

// A copy of its own; and the contents of one into another of the same sizes, without waiting.
DeviceBatch clone(const DeviceBatch& batch);
void copy(const DeviceBatch& from, DeviceBatch& to);

// The masks of a batch and of the wild type, [B + 1, stride] u8 on the host; undefined where none
// are loaded. Where they lie in one block already this is a view, valid as long as the batch.
at::Tensor mask_tensor(const RungBatch& batch, const RungMasks& masks);

struct FeedOptions {
  at::Device device = at::kCPU;
  int64_t batch = 0;  // the largest
  // The most genes that a sample removes: on a GPU all batches are that wide, so that one recorded
  // step serves them all. On the CPU each is as wide as its own samples need.
  int64_t widest = 0;
  std::optional<Column> weights = {};  // of the samples; see weights_of()
};

class BatchFeed {
 public:
  // The loader and the labels outlive the feed.
  BatchFeed(Loader<RungSource>& loader, const LabelScale& labels, const FeedOptions& options);
  ~BatchFeed();

  // The next batch, or null at the end of an epoch.
  const DeviceBatch* next();
  // Where the loader stood after the last batch that was given out: what a checkpoint keeps.
  const LoaderState& state() const;
  // The next batch is the one behind that place; one that was fetched ahead is dropped.
  void seek(const LoaderState& state);

 private:
  struct Slot;
  void fetch(Slot& slot);

  Loader<RungSource>& loader_;
  const LabelScale& labels_;
  FeedOptions options_;
  std::unique_ptr<FetchAhead<Slot>> ahead_;
};

// The most genes that any sample removes, repeats counted.
int64_t widest_removal(const Samples& samples);
// The column or label that weighs the samples, any numbers. Throws Error for one that is not there
// or has categories, and where one of the chosen samples has a weight that is negative, missing or
// infinite, naming the sample.
Column weights_of(const Samples& samples, const std::string& name,
                  std::span<const uint32_t> chosen);

}  // namespace lacuna
