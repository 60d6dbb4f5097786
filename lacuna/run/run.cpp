#include "lacuna/run/run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/run/json_file.h"
#include "lacuna/run/metrics_log.h"

namespace lacuna {
namespace {

constexpr const char* kRunFormat = "lacuna.run";

// What may lie in a directory whose run was killed before it had a run.json.
bool is_left_over(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name == "lock" || name.starts_with("config.yaml") || name.starts_with("run.json.") ||
         (name == "checkpoints" && fs::is_empty(entry));
}

std::shared_ptr<void> lock_run(const fs::path& path) {
  const fs::path file = path / "lock";
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (opened < 0) throw_errno(file.string(), "cannot open");
  const std::shared_ptr<void> lock(nullptr, [opened](void*) { ::close(opened); });
  if (::flock(opened, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    throw Error("{} is being trained by another process; wait for it, or choose another --out",
                path.string());
  if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) return lock;  // no locks here
  throw_errno(file.string(), "cannot lock");
}

RecordingInfo recording_info(const Json& json) {
  const Json recording = json.value("recording", Json::object());
  RecordingInfo info = {.path = text_of(recording, "path"),
                        .rung = text_of(recording, "rung"),
                        .sessions = recording.value("sessions", std::vector<std::string>()),
                        .units = count_of(recording, "units"),
                        .bytes = count_of(recording, "bytes"),
                        .windows_of = {}};
  const Json windows = recording.value("windows", Json::object());
  for (const auto& [part, count] : windows.items()) info.windows_of[part] = count.get<uint64_t>();
  return info;
}

fs::path metrics_of(const fs::path& run) { return run / "metrics.jsonl"; }

}  // namespace

void Run::check_free(const fs::path& path) {
  if (fs::exists(path / "run.json"))
    throw Error(
        "{} holds a run already; add --resume to go on with it, or choose another --out "
        "(a run that is not wanted can be deleted)",
        path.string());
  if (!fs::exists(path)) return;
  if (!fs::is_directory(path))
    throw Error("{} is not a directory; choose another --out", path.string());
  for (const auto& entry : fs::directory_iterator(path))
    if (!is_left_over(entry.path()))
      throw Error("{} holds something else ({}); choose another --out", path.string(),
                  entry.path().filename().string());
}

Run Run::create(const fs::path& path, const std::string& config) {
  check_free(path);
  std::error_code error;
  fs::create_directories(path / "checkpoints", error);
  if (error) throw Error("cannot create {}: {}", path.string(), error.message());
  Run run(path);
  run.lock_ = lock_run(path);
  check_free(path);  // again, under the lock: another process may have begun a run meanwhile
  write_text_atomically(run.config(), sealed_yaml(config));
  write_sealed_json(path / "run.json",
                    {{"format", kRunFormat}, {"version", 1}, {"status", "running"}});
  return run;
}

Run Run::open(const fs::path& path) {
  if (!fs::exists(path / "run.json"))
    throw Error("{} is not a run (it has no run.json); `lacuna train CONFIG --out {}` makes one",
                path.string(), path.string());
  read_run_info(path);
  return Run(path);
}

Run Run::resume(const fs::path& path) {
  Run run = open(path);
  run.lock_ = lock_run(path);
  read_log(metrics_of(path), read_run_info(path).metrics_end, [](auto, auto&) {});
  return run;
}

RunInfo read_run_info(const fs::path& run) {
  return read_json_file(run / "run.json", kRunFormat, "train again", [](const SealedJson& sealed) {
    const Json& json = sealed.json;
    const Json screen = json.value("screen", Json::object());
    return RunInfo{.status = json.at("status").get<std::string>(),
                   .message = text_of(json, "message"),
                   .command = text_of(json, "command"),
                   .lacuna_version = text_of(json, "lacuna"),
                   .torch_version = text_of(json, "torch"),
                   .device = text_of(json, "device"),
                   .started = text_of(json, "started"),
                   .ended = text_of(json, "ended"),
                   .metrics_end = text_of(json, "metrics_end"),
                   .parameters = count_of(json, "parameters"),
                   .screen = json.contains("screen") ? data_path_of(json) : "",
                   .fingerprint = data_fingerprint_of(json),
                   .samples = count_of(screen, "samples"),
                   .genes = count_of(screen, "genes"),
                   .edges = count_of(screen, "edges"),
                   .recording = recording_info(json)};
  });
}

fs::path Run::checkpoint(std::string_view name) const {
  return path_ / "checkpoints" / (std::string(name) + ".safetensors");
}

Json Run::info() const {
  const fs::path file = path_ / "run.json";
  const Json info = parse_sealed_json(read_text(file), file.string() + " is damaged").json;
  if (!info.is_object()) throw Error("{} is damaged: not a JSON object", file.string());
  return info;
}

void Run::update(const Json& members) const {
  Json info = this->info();
  info.update(members);
  if (members.contains("status")) {
    const std::string end = end_of_log(metrics_of(path_));
    info["metrics_end"] = members["status"] == "running" || end.empty() ? Json() : Json(end);
  }
  write_sealed_json(path_ / "run.json", info);
}

void Run::add_metrics(const Json& line) const {
  const fs::path file = metrics_of(path_);
  std::ofstream out(file, std::ios::app);
  out << sealed_json_line(line) << '\n';
  if (!out.flush()) throw_errno(file.string(), "cannot write");
}

void Run::cut_metrics(uint64_t step, uint64_t epochs) const {
  const fs::path file = metrics_of(path_);
  if (!fs::exists(file)) return;
  std::string kept;
  read_log(file, "", [&](std::string_view text, const Json& line) {
    if (line.at("step").get<uint64_t>() > step) return;
    if (line.at("kind") == "epoch" && line.value("epoch", uint64_t(0)) >= epochs) return;
    kept += std::string(text) + '\n';
  });
  write_text_atomically(file, kept);
}

}  // namespace lacuna
