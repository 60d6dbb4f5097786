// Stores that nothing refers to: what `lacuna clean` lists, and removes when it is told to.
//
// A store (masks of a screen, frames of a recording) is referred to by a run or a config that names
// it: a .yaml file under one of the folders, with a key `store` that leads there. What lies outside
// the folders is not known, which is why nothing is removed that was not named.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/store/directory.h"

namespace lacuna {

struct FoundStore {
  fs::path path;
  std::string format;  // lacuna.store, lacuna.frames
  std::string rung;    // empty where an unfinished one does not say
  bool is_finished = true;
  uint64_t bytes = 0;  // of all files in it
  std::vector<fs::path> referred_by;
};

// All stores under these folders, by path. Folders inside stores, recordings, screens and runs are
// not searched for more, and links are not followed. Throws Error for a folder that is not there.
std::vector<FoundStore> find_stores(const std::vector<fs::path>& folders);

// Removes a store. Throws Error for a path that is no store, that one of `found` says is referred
// to, that holds a file which no store has, or that a process is writing.
void remove_store(const fs::path& path, const std::vector<FoundStore>& found);

}  // namespace lacuna
