#include "lacuna/run/run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.run";
constexpr int kVersion = 1;

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

fs::path metrics_of(const fs::path& run) { return run / "metrics.jsonl"; }

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  if (!fs::exists(file)) return lines;
  std::istringstream in(read_text(file));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What a line logs; nothing for one that is damaged.
std::optional<Json> entry_of(const std::string& line) {
  if (seal_of_json_line(line) == Seal::broken) return {};
  try {
    const Json entry = parse_json(line, "");
    return entry.is_object() ? std::optional(entry) : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

// Names the last line, as run.json keeps it; null where nothing was logged.
Json end_of_metrics(const fs::path& run) {
  const std::vector<std::string> lines = lines_of(metrics_of(run));
  return lines.empty() ? Json() : Json(hex(hash64(lines.back())));
}

// The entries of all lines but a torn last one. Throws Error for any other damaged line.
std::vector<std::pair<std::string, Json>> whole_lines(const fs::path& run) {
  const fs::path file = metrics_of(run);
  const std::vector<std::string> lines = lines_of(file);
  std::vector<std::pair<std::string, Json>> whole;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (const auto entry = entry_of(lines[i]))
      whole.emplace_back(lines[i], *entry);
    else if (i + 1 < lines.size())
      throw Error("line {} of {} is damaged; restore the file, or delete that line to go on", i + 1,
                  file.string());
  }
  return whole;
}

void check_metrics(const fs::path& run, const Json& info) {
  whole_lines(run);
  const fs::path file = metrics_of(run);
  const Json end = info.value("metrics_end", Json());
  if (!end.is_null() && fs::exists(file) && end != end_of_metrics(run))
    throw Error(
        "{} is damaged: its last line is not the one that run.json names; restore it, or delete it "
        "to go on without what was logged",
        file.string());
}

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
  check_free(path);  // nobody was quicker
  write_text_atomically(run.config(), sealed_yaml(config));
  write_sealed_json(path / "run.json",
                    {{"format", kFormat}, {"version", kVersion}, {"status", "running"}});
  return run;
}

Run Run::open(const fs::path& path) {
  if (!fs::exists(path / "run.json"))
    throw Error("{} is not a run (it has no run.json); `lacuna train CONFIG --out {}` makes one",
                path.string(), path.string());
  const Run run(path);
  const Json info = run.info();
  const auto has = [&](const char* member, const Json& value) {
    return info.contains(member) && info.at(member) == value;
  };
  if (!has("format", kFormat) || !has("version", kVersion))
    throw Error("{}: run.json is not of format {} version {}; was it made by another version?",
                path.string(), kFormat, kVersion);
  return run;
}

Run Run::resume(const fs::path& path) {
  Run run = open(path);
  run.lock_ = lock_run(path);
  check_metrics(path, run.info());
  return run;
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
  if (members.contains("status"))
    info["metrics_end"] = members["status"] == "running" ? Json() : end_of_metrics(path_);
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
  for (const auto& [line, entry] : whole_lines(path_)) {
    if (entry.value("step", uint64_t(0)) > step) continue;
    if (entry.value("kind", "") == "epoch" && entry.value("epoch", uint64_t(0)) >= epochs) continue;
    kept += line + '\n';
  }
  write_text_atomically(file, kept);
}

}  // namespace lacuna
