// Stores that nothing refers to: what `lacuna clean` lists, and removes when it is told to.
//
//   masks of a screen,        by a run or a config: a .yaml file under one of the folders, with a
//   frames of a recording     key `store` that leads there
//   a recording derived from  by one with a key `recording` or `derived` that leads there, or whose
//   another by transforms     transforms it was written for; by a recording with fields in it
//   RECORDING/statistics      by one whose transforms or trainings need them; taken file by file
//
// What lies outside the folders is not known, which is why nothing is removed that was not named.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/store/directory.h"

namespace lacuna {

struct FoundStore {
  fs::path path;
  std::string format;  // lacuna.store, lacuna.frames, lacuna.recording, lacuna.statistic
  std::string what;    // a rung, transforms, statistics; empty where an unfinished one does not say
  bool is_finished = true;
  uint64_t bytes = 0;  // of all files in it; of statistics, those that nothing refers to
  std::vector<fs::path> referred_by;
  std::vector<fs::path> files;  // of statistics: those that nothing refers to
};

// All stores under these folders, by path. Folders inside stores, recordings, screens and runs are
// not searched for more, and links are not followed. Throws Error for a folder that is not there.
std::vector<FoundStore> find_stores(const std::vector<fs::path>& folders);

// Removes a store; of statistics, what nothing refers to. Throws Error for a path that is no store,
// that one of `found` says is referred to, that holds a file which no store has, or that a process
// is using.
void remove_store(const fs::path& path, const std::vector<FoundStore>& found);

}  // namespace lacuna
