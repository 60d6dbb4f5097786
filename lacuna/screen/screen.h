// A screen: one graph and many samples, each of which removes a few genes and has measured labels.
//
// On disk a directory of format "lacuna.screen" (docs/formats.md). An open screen maps its sample
// arrays. Removed genes are in the smallest type that holds the gene count (at least u16), ptr is
// u32, or u64 beyond 2^32 removed genes in all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/graph/hetero_graph.h"
#include "lacuna/screen/noise.h"
#include "lacuna/screen/samples.h"
#include "lacuna/store/directory.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

class Screen {
 public:
  static constexpr const char* kFormat = "lacuna.screen";
  static constexpr int kVersion = 1;
  static DirectoryFormat format();  // these two, and the files of a screen

  // To compute with: opens the screen and reads all of it once, as check() does, so that nothing is
  // computed from bytes that have changed since it was written. Throws Error that names the file or
  // the part that differs.
  static Screen open(const fs::path& path, Progress& progress = Progress::none());
  // To list what it holds: checks sizes, dtypes and that ptr ends where removed does, and reads
  // none of the samples.
  static Screen open_unchecked(const fs::path& path);

  const fs::path& path() const { return directory_.path(); }
  const Directory& directory() const { return directory_; }
  const HeteroGraph& graph() const { return *graph_; }
  const Samples& samples() const { return samples_; }
  const std::vector<Split>& splits() const { return splits_; }
  // What repeats say about the noise of its labels; empty where they say nothing.
  const std::vector<LabelNoise>& noise() const { return noise_; }
  const Column& column(std::string_view name) const;  // throws Error, listing what there is
  const Split& split(std::string_view name) const;    // throws Error, listing what there is
  // Of the graph and the samples (see fingerprint_of()); stored in the manifest when the screen was
  // written, and compared with the contents by open() and check().
  const Fingerprint& fingerprint() const { return fingerprint_; }
  // Reads every byte against the checksums, then every index, ptr and code against its range, and
  // compares the fingerprint with that of the contents.
  void check(Progress& progress) const;

 private:
  static Screen read(const Directory& directory);
  void check_contents(Progress& progress) const;

  Directory directory_;
  std::shared_ptr<const HeteroGraph> graph_;
  Samples samples_;
  std::vector<Split> splits_;
  std::vector<LabelNoise> noise_;
  Fingerprint fingerprint_;
};

// What is written as a new screen. made_by: {"command": ..., "settings": {...}, "sources":
// [{"path", "bytes", "xxh3"}]}.
struct ScreenContents {
  const HeteroGraph& graph;
  const Samples& samples;
  std::vector<Split> splits;
  Json made_by;
  std::vector<LabelNoise> noise = {};
};
// Checks everything an opened screen promises, writes it crash-safe and returns it open. Throws
// Error also as DirectoryWriter does, such as when another program is writing there.
Screen write_screen(const fs::path& path, const ScreenContents& contents,
                    Progress& progress = Progress::none());
// Adds a split to a finished screen: the array first, then the manifest by rename. Throws Error
// when the name is taken, or the screen is damaged.
void add_split(const fs::path& screen, const Split& split);
// Takes a split out of a finished screen and returns it, in memory. Throws Error, listing the
// splits, where none has this name. Works even where other parts of the screen are damaged.
Split remove_split(const fs::path& screen, const std::string& name);

// Gives a finished screen these aliases of its genes, beside those it has, and returns how many are
// new. Aliases are no part of the fingerprint: runs and stores of it stay valid. Crash-safe: a new
// file first, then the manifest by rename.
uint64_t add_aliases(const fs::path& screen, const Names& genes);

// The same of a feature of the genes, [N, d] f32; the fingerprint of the screen changes with it.
void add_feature(const fs::path& screen, const NodeFeature& feature);
void remove_feature(const fs::path& screen, const std::string& name);
// Throws Error where a feature of the genes has this name already, or the name cannot be one.
void check_free_feature(const Screen& screen, const std::string& name);

// "genes", "nodes TYPE", "features TYPE.NAME", "edges KEY", "values KEY.NAME".
Fingerprint fingerprint_of(const HeteroGraph& graph);

}  // namespace lacuna
