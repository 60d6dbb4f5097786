// A screen: one graph and many samples, each of which removes a few genes and has measured labels.
//
// On disk a directory of format "lacuna.screen" (docs/formats.md). An open screen maps its sample
// arrays: opening 20 million samples reads none of them. Removed genes are in the smallest type
// that holds the gene count (at least u16), ptr is u32, or u64 beyond 2^32 removed genes in all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/progress.h"
#include "lacuna/graph/hetero_graph.h"
#include "lacuna/store/directory.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// Anything else that was measured or known of each sample. Categories are codes with their names
// beside them.
struct Column {
  std::string name;
  Array values;  // [S] f32, f64, u8, u16, u32, i32 or i64; the largest unsigned code = unknown
                 // category
  std::vector<std::string> categories;  // names of codes 0, 1, ...; empty for a number
};

enum class Part : uint8_t { train = 0, validation = 1, test = 2, unused = 255 };
std::string_view name(Part part);
Part part_from_name(std::string_view name);

struct Split {
  std::string name;
  Array parts;  // [S] u8, see Part
  Json how;     // how it was drawn, or where it came from
};

// The samples of a screen, in memory or mapped.
struct Samples {
  Array removed;                         // [ptr[S]] u16 or u32
  Array ptr;                             // [S + 1] u32 or u64
  Array labels;                          // [S] or [S, L] f32; NaN = not measured
  std::vector<std::string> label_names;  // [L]
  std::vector<Column> columns;

  uint64_t size() const { return ptr.size() - 1; }
  uint64_t label_count() const { return label_names.size(); }
};

// Reads removed and ptr whatever their type. Views; they do not own the arrays.
class RemovedReader {
 public:
  explicit RemovedReader(const Samples& samples);
  uint64_t begin(uint64_t sample) const;
  uint64_t count(uint64_t sample) const { return begin(sample + 1) - begin(sample); }
  uint32_t at(uint64_t place) const;
  // Replaces out's contents by the removed genes of a sample, in stored order.
  void read(uint64_t sample, std::vector<uint32_t>& out) const;

 private:
  const uint16_t* removed16_ = nullptr;
  const uint32_t* removed32_ = nullptr;
  const uint32_t* ptr32_ = nullptr;
  const uint64_t* ptr64_ = nullptr;
};

// Builds the sample arrays of a screen, one sample after another.
class SampleBuilder {
 public:
  SampleBuilder(uint32_t gene_count, std::vector<std::string> label_names);
  // Throws Error when an index is not below the gene count. labels: one a label name.
  void add(std::span<const uint32_t> removed, std::span<const float> labels);
  uint64_t size() const { return ptr_.size() - 1; }
  Samples finish();  // leaves the builder empty

 private:
  uint32_t gene_count_;
  std::vector<std::string> label_names_;
  std::vector<uint32_t> removed_;
  std::vector<uint64_t> ptr_ = {0};
  std::vector<float> labels_;
};

class Screen {
 public:
  static constexpr const char* kFormat = "lacuna.screen";
  static constexpr int kVersion = 1;

  // Checks sizes, dtypes and that ptr ends where removed does; not every index (see check()).
  static Screen open(const fs::path& path);

  const fs::path& path() const { return directory_.path(); }
  const Directory& directory() const { return directory_; }
  const HeteroGraph& graph() const { return *graph_; }
  const Samples& samples() const { return samples_; }
  const std::vector<Split>& splits() const { return splits_; }
  const Column& column(std::string_view name) const;  // throws Error, listing what there is
  const Split& split(std::string_view name) const;    // throws Error, listing what there is
  // Parts "genes", "edges KEY", "samples A:B" in blocks of 65,536; stored in the manifest when it
  // was written.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  // Reads every byte against the checksums, then every index, ptr and code against its range.
  void check(Progress& progress) const;

 private:
  Directory directory_;
  std::shared_ptr<const HeteroGraph> graph_;
  Samples samples_;
  std::vector<Split> splits_;
  Fingerprint fingerprint_;
};

// What is written as a new screen. made_by: {"command": ..., "settings": {...}, "sources":
// [{"path", "bytes", "xxh3"}]}.
struct ScreenContents {
  const HeteroGraph& graph;
  const Samples& samples;
  std::vector<Split> splits;
  Json made_by;
};
// Checks everything an opened screen promises, writes it crash-safe and returns it open.
Screen write_screen(const fs::path& path, const ScreenContents& contents,
                    Progress& progress = Progress::none());
// Adds a split to a finished screen: the array first, then the manifest by rename.
void add_split(const fs::path& screen, const Split& split);

Fingerprint fingerprint_of(const HeteroGraph& graph);  // "genes", "edges KEY"...
Fingerprint fingerprint_of(const Samples& samples);    // "samples A:B"...

}  // namespace lacuna
