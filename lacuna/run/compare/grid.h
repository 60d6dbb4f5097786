// The runs of a comparison: one config, several splits, several seeds, and any keys varied.
//
// Every combination is a run. Runs are in order of their seed first, so that a grid that is stopped
// half way has tried everything about equally often. A run's name says what is special about it and
// is the name of its directory: "pair_train.lr=3e-4_seed=2" (letters, digits and . = + - only;
// anything else in a value becomes a dash).
//
// Where the model is varied (model.name), the keys under `model` that the config or --set gives and
// a model has not are left out of its runs; GridRun::left_out names them. What is varied is never
// left out: a model that has it not is an error.
//
// A directory of runs remembers its grid, the fingerprints of its screens and a hash of each split
// in compare.json, so that runs of different settings, data or splits never mix: the same grid goes
// on, a larger one extends it, another one is refused with the difference.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/run/config.h"
#include "lacuna/screen/samples.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

struct Variation {
  std::string key;                  // "train.lr"
  std::vector<std::string> values;  // at least one, no repeats; as YAML
};
// "train.lr=1e-3,3e-4". Commas inside [], {} and quotes belong to a value. Throws UsageError.
Variation parse_variation(const std::string& text);

struct GridRun {
  std::string name;
  std::string split;
  std::vector<std::string> values;  // [variations]
  uint64_t seed = 0;
  Config config;
  std::vector<std::string> left_out = {};  // "model.layers"
};

struct GridOptions {
  fs::path config;
  std::vector<std::string> settings = {};  // key=value, over the config
  std::vector<std::string> splits = {};    // none: the config's own
  uint64_t seeds = 1;                      // train.seed 1, 2, ...
  std::vector<Variation> variations = {};
};

struct Grid {
  Config base;  // split and train.seed mean nothing here, nor do the varied keys
  std::vector<std::string> splits;
  uint64_t seeds = 1;
  std::vector<Variation> variations;  // by key
  std::vector<GridRun> runs;
  // From read_screens().
  std::map<std::string, Fingerprint> screens = {};                 // by path
  std::map<std::string, std::map<std::string, Split>> drawn = {};  // by screen and name
};

// Reads the config and resolves every run. Throws UsageError where a split or a key is named twice,
// where `split` or `train.seed` is varied or set (--splits and --seeds do that), a setting cannot
// be, or two runs would have the same name; Error for a config that cannot be.
Grid make_grid(GridOptions options);
// "model mlp has no model.layers, model.merge: left out of its runs", a line a model.
std::vector<std::string> left_out_words(const Grid& grid);

// The splits that `lacuna split --folds` made under this name, in order. Throws Error, with the
// command that makes them, where the screen has none or not all of them.
std::vector<std::string> fold_splits(const fs::path& screen, const std::string& name);
// Of which folds a split is one; nothing where it is none.
struct FoldOf {
  std::string name;
  uint64_t folds = 0, genes = 0;  // how many folds; genes that this one holds out for test
};
std::optional<FoldOf> fold_of(const Split& split);

// Opens the screen of every run and notes its fingerprint and its splits. Throws Error for the
// first split that a run's screen does not have, with the command that makes it.
void read_screens(Grid& grid);

// Makes the directory and its compare.json, or compares with the one that is there: equal grids
// agree, a larger one replaces it. Throws Error that says what differs, or when the directory holds
// something else.
void claim_directory(const fs::path& out, const Grid& grid, const std::string& command);
// The split of a run, as read_screens() found it.
const Split& split_of(const Grid& grid, const GridRun& run);
// Whether the directory's compare.json says which splits its runs were trained on. False: an older
// version wrote it; or there is none.
bool knows_splits(const fs::path& out);

}  // namespace lacuna
