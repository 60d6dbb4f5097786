// The peers of `lacuna bench ladder`: bench/ladder_peers.py, run beside the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lacuna/store/directory.h"

namespace lacuna::cli {

struct PeersSettings {
  fs::path screen, folder;  // folder: an empty one, for their stores
  uint64_t batch = 28;
  double seconds = 4;  // per peer, about
  std::string python;  // empty: LACUNA_PYTHON, else python3
};

// The lines of the script, one per peer; on_peer() gets each as it comes. Throws Error that says
// what is missing: Python, the script, a package.
std::vector<Json> run_peers(const PeersSettings& settings,
                            const std::function<void(const Json& peer)>& on_peer);

}  // namespace lacuna::cli
