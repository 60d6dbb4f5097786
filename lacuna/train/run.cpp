#include "lacuna/train/run.h"

#include <fstream>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.run";
constexpr int kVersion = 1;

}  // namespace

Run Run::create(const fs::path& path, const std::string& config) {
  if (fs::exists(path / "run.json"))
    throw Error("{} holds a run already; add --resume to go on with it, or choose another --out",
                path.string());
  if (fs::exists(path) && !fs::is_empty(path))
    throw Error("{} holds something else; choose another --out", path.string());
  std::error_code error;
  fs::create_directories(path / "checkpoints", error);
  if (error) throw Error("cannot create {}: {}", path.string(), error.message());
  const Run run(path);
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
  if (info.value("format", "") != kFormat || info.value("version", 0) != kVersion)
    throw Error("{}: run.json is not of format {} version {}; was it made by another version?",
                path.string(), kFormat, kVersion);
  return run;
}

fs::path Run::checkpoint(std::string_view name) const {
  return path_ / "checkpoints" / (std::string(name) + ".safetensors");
}

Json Run::info() const {
  const fs::path file = path_ / "run.json";
  try {
    return Json::parse(read_text(file));
  } catch (const Json::exception&) {
    throw Error("{} is damaged: not JSON", file.string());
  }
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

void Run::cut_metrics(uint64_t step) const {
  const fs::path file = path_ / "metrics.jsonl";
  if (!fs::exists(file)) return;
  std::ifstream in(file);
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_discarded() || entry.value("step", uint64_t(0)) > step) continue;
    kept += line + '\n';
  }
  write_text_atomically(file, kept);
}

}  // namespace lacuna
