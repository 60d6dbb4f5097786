// Predictions of samples in a file, by gene name; written sample by sample, so that millions of
// them are never in memory. The extension says how:
//
//   .csv   a head, then a line a sample: gene_1,gene_2,...,LABEL,... Fewer genes than columns leave
//          empty cells; the wild type has nothing else. Names are written so that spreadsheets
//          take none for a formula (core/text/csv.h). listed_samples() (screen/candidates.h)
//          reads such a file. Where genes have aliases, their standard names stand behind the
//          genes: gene_1,gene_2,name_1,name_2,LABEL. That of a shard has a line before the head
//          (prediction_shard.h).
//   .npz   genes        [S, k] u8, u16 or u32: places in gene_names
//          gene_names   [N + 1] str: gene_names[genes] are the names; the last is empty and stands
//                       for no gene, where a sample removes fewer than k
//          standard_names  [N + 1] str: the same for standard names, where genes have aliases
//          predictions  [S, L] f32
//          labels       [L] str
//          shard        [1] str: of a shard, the same line
//
// Written aside and renamed by close(): a reader sees all of it or nothing. Without close() nothing
// is left.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/graph/names.h"

namespace lacuna {

struct PredictionLayout {
  const Names& genes;               // must outlive the file
  std::vector<std::string> labels;  // [L]
  uint64_t samples;                 // S, exactly
  uint32_t widest;                  // k
  std::string note = {};            // of a shard: shard_note()
};

// The columns of a .csv that are predictions: all behind gene_1, ... and name_1, ...
std::vector<std::string> predicted_labels(const std::vector<std::string>& head);

class PredictionFile {
 public:
  virtual ~PredictionFile() = default;
  // The next sample: up to k genes, L predictions.
  virtual void add(std::span<const uint32_t> genes, std::span<const float> predicted) = 0;
  virtual void close() = 0;
};

// Throws UsageError for a path that ends in neither .csv nor .npz.
void check_prediction_path(const fs::path& path);
std::unique_ptr<PredictionFile> create_prediction_file(const fs::path& path,
                                                       PredictionLayout layout);

}  // namespace lacuna
