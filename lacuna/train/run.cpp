#include "lacuna/train/run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "lacuna/core/error.h"

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
  write_text_atomically(run.config(), config);
  const Json info = {{"format", kFormat}, {"version", kVersion}, {"status", "running"}};
  write_text_atomically(path / "run.json", info.dump(2) + "\n");
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
  return run;
}

fs::path Run::checkpoint(std::string_view name) const {
  return path_ / "checkpoints" / (std::string(name) + ".safetensors");
}

Json Run::info() const {
  const fs::path file = path_ / "run.json";
  Json info = Json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
  if (!info.is_object()) throw Error("{} is damaged: not a JSON object", file.string());
  return info;
}

void Run::update(const Json& members) const {
  Json info = this->info();
  info.update(members);
  write_text_atomically(path_ / "run.json", info.dump(2) + "\n");
}

void Run::add_metrics(const Json& line) const {
  const fs::path file = path_ / "metrics.jsonl";
  std::ofstream out(file, std::ios::app);
  out << line.dump() << '\n';
  if (!out.flush()) throw_errno(file.string(), "cannot write");
}

void Run::cut_metrics(uint64_t step, uint64_t epochs) const {
  const fs::path file = path_ / "metrics.jsonl";
  if (!fs::exists(file)) return;
  std::ifstream in(file);
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || entry.value("step", uint64_t(0)) > step) continue;
    if (entry.value("kind", "") == "epoch" && entry.value("epoch", uint64_t(0)) >= epochs) continue;
    kept += line + '\n';
  }
  write_text_atomically(file, kept);
}

}  // namespace lacuna
