// The directory of a run (docs/runs.md): what was asked, what happened, what came out.
//
//   config.yaml       every setting, resolved
//   run.json          status (running, finished, stopped, failed), versions, the screen, counts
//   metrics.jsonl     a line a logging step and an epoch
//   checkpoints/      last, best_pearson, best_mse: one safetensors file each
//   evaluation.json, predictions/, profile.json, trace.json, ladder.json where they were made
//
//   lock              held by the process that trains: two never train the same run
//
// Every file but metrics.jsonl (metrics_log.h) is replaced whole, and carries a checksum
// (core/seal.h). run_contents.h reads all of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/store/directory.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// What run.json says of a recording that a run was trained on; empty: it was a screen.
struct RecordingInfo {
  std::string path, rung;
  std::vector<std::string> sessions;
  uint64_t units = 0, bytes = 0;
  std::map<std::string, uint64_t> windows_of;  // by part

  uint64_t windows(const std::string& part) const {
    const auto found = windows_of.find(part);
    return found == windows_of.end() ? 0 : found->second;
  }
};

// What run.json says; empty or 0: not said.
struct RunInfo {
  std::string status;  // running, finished, stopped, failed
  std::string message, command, lacuna_version, torch_version, device, started, ended;
  std::string metrics_end;  // of a run that has ended: names the last line of metrics.jsonl
  uint64_t parameters = 0;
  std::string screen;       // its path
  Fingerprint fingerprint;  // of genes, edges and features of the screen
  uint64_t samples = 0, genes = 0, edges = 0;
  RecordingInfo recording;
};
// Throws Error that names run.json where it is damaged, or of another format.
RunInfo read_run_info(const fs::path& run);

class Run {
 public:
  // A new run, locked. Throws Error when the directory holds anything already, with the way to
  // resume it; what a run that was killed at its very start left behind does not count.
  static Run create(const fs::path& path, const std::string& config);
  // Throws the same Error, and changes nothing.
  static void check_free(const fs::path& path);
  // To read. Throws Error for a directory that is not a run, or whose run.json is damaged.
  static Run open(const fs::path& path);
  // To train on, locked. Throws Error when another process trains it, as far as the file system has
  // locks, and when metrics.jsonl is damaged. Copies share the lock.
  static Run resume(const fs::path& path);

  const fs::path& path() const { return path_; }
  fs::path config() const { return path_ / "config.yaml"; }
  fs::path checkpoint(std::string_view name) const;  // last, best_pearson, best_mse
  bool has_checkpoint(std::string_view name) const { return fs::exists(checkpoint(name)); }

  // The contents of run.json (RunInfo has their types), and a change to them.
  Json info() const;
  void update(const Json& members) const;
  void add_metrics(const Json& line) const;  // to_json() of a StepLine or an EpochLine
  // Cuts metrics.jsonl back to the lines of steps up to `step`, and of the first `epochs` epochs'
  // ends. Throws Error that names a damaged line; a torn last one is cut away.
  void cut_metrics(uint64_t step, uint64_t epochs) const;

 private:
  explicit Run(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
  std::shared_ptr<void> lock_ = nullptr;
};

}  // namespace lacuna
