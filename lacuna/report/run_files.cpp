#include "lacuna/report/run_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/text/text.h"
#include "lacuna/report/measured_on.h"
#include "lacuna/report/run_contents.h"

namespace lacuna::report {
namespace {

// Runs read(), which looks into `file`; what JSON throws becomes an Error with the remedy.
void reading(const fs::path& file, const std::string& remedy, const std::function<void()>& read) {
  try {
    read();
  } catch (const Json::exception& error) {
    throw Error("{} is damaged: {}; {}", file.string(), error.what(), remedy);
  }
}

// The same for a file that a run can do without: damage is listed, and `leave_out` called.
void trying(Run& run, const fs::path& file, const std::string& remedy,
            const std::function<void()>& read, const std::function<void()>& leave_out) {
  try {
    reading(file, remedy, read);
  } catch (const Error& error) {
    leave_out();
    run.damaged.push_back({file.filename().string(), error.what()});
  }
}

// Files that Lacuna seals today, and older ones did not.
void list_unchecked(Run& run) {
  for (const char* name :
       {"run.json", "config.yaml", "evaluation.json", "profile.json", "ladder.json"}) {
    const fs::path file = run.path / name;
    if (!fs::exists(file) || run.is_damaged(name)) continue;
    const std::string text = read_text(file);
    const bool is_yaml = file.extension() == ".yaml";
    if ((is_yaml ? seal_of_yaml(text) : seal_of_json(text)) == Seal::none)
      run.unchecked.push_back(name);
  }
}

// The path, or the runs in that folder.
std::vector<fs::path> runs_at(const fs::path& path) {
  if (fs::exists(path / "run.json") || !fs::is_directory(path)) return {path};
  std::vector<fs::path> runs;
  for (const auto& entry : fs::directory_iterator(path))
    if (fs::exists(entry.path() / "run.json")) runs.push_back(entry.path());
  std::sort(runs.begin(), runs.end());
  return runs.empty() ? std::vector<fs::path>{path} : runs;
}

std::string last_name(const fs::path& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string();
}

// The last `parts` names of the path.
std::string long_name(const fs::path& path, size_t parts) {
  fs::path rest = fs::absolute(path).lexically_normal(), name;
  if (!rest.has_filename()) rest = rest.parent_path();
  for (size_t i = 0; i < parts && rest.has_filename(); ++i, rest = rest.parent_path())
    name = name.empty() ? rest.filename() : rest.filename() / name;
  return name.string();
}

}  // namespace

double Predictions::predicted_at(uint64_t row, uint64_t label) const {
  return double(predicted.as<float>()[row * label_count + label]);
}
double Predictions::measured_at(uint64_t row, uint64_t label) const {
  return double(measured.as<float>()[row * label_count + label]);
}

std::string Evaluation::interval_words() const {
  return std::isfinite(level) ? fmt::format("{:.4g}% bootstrap interval", 100 * level)
                              : "bootstrap interval";
}

bool Run::is_damaged(std::string_view file) const {
  return std::any_of(damaged.begin(), damaged.end(),
                     [&](const Damage& damage) { return damage.file == file; });
}

std::string Run::setting(const std::string& key) const {
  const auto settings = settings_of(config);
  const auto found = settings.find(key);
  return found == settings.end() ? "" : found->second;
}

std::string Run::split() const {
  return evaluation && !evaluation->split.empty() ? evaluation->split : setting("split");
}

std::vector<std::string> Run::label_names(uint64_t count) const {
  std::vector<std::string> names;
  const PartEvaluation* evaluated = main_part();
  if (evaluated && evaluated->labels.size() == count)
    for (const auto& label : evaluated->labels) names.push_back(label.label);
  else if (!epochs.empty() && epochs.back().validation.size() == count)
    for (const auto& label : epochs.back().validation) names.push_back(label.name);
  else
    for (uint64_t l = 0; l < count; ++l)
      names.push_back(count == 1 ? "label" : fmt::format("label {}", l + 1));
  return names;
}

const PartEvaluation* Run::part(const std::string& name) const {
  if (!evaluation) return nullptr;
  for (const auto& part : evaluation->parts)
    if (part.part == name) return &part;
  return nullptr;
}

const PartEvaluation* Run::main_part() const {
  for (const char* name : {"test", "validation"})
    if (const PartEvaluation* found = part(name)) return found;
  return evaluation && !evaluation->parts.empty() ? &evaluation->parts[0] : nullptr;
}

Run inspect_run(const fs::path& path) {
  const fs::path run_json = path / "run.json";
  if (!fs::is_directory(path))
    throw Error("{} is not a directory; give the folder that `lacuna train --out` wrote",
                path.string());
  if (!fs::exists(run_json))
    throw Error("{} has no run.json; is it a run? `lacuna train CONFIG --out RUN` makes one",
                path.string());
  Run run;
  run.path = path;
  run.name = last_name(path);
  reading(run_json, "train again", [&] { read_run_json(run_json, run); });
  if (const fs::path file = path / "config.yaml"; fs::exists(file))
    trying(
        run, file, "", [&] { run.config = read_run_config(file); }, [] {});
  else
    run.notes.push_back("There is no config.yaml.");
  if (run.screen_path.empty()) run.screen_path = run.setting("screen");
  const fs::path metrics = path / "metrics.jsonl";
  trying(
      run, metrics, "", [&] { read_metrics_file(metrics, run); },
      [&] {
        run.steps.clear();
        run.epochs.clear();
      });
  const fs::path evaluation = path / "evaluation.json";
  const auto read_results = [&] {
    if (!fs::exists(evaluation)) return;
    run.evaluation = read_evaluation(evaluation);
    run.predictions = read_all_predictions(path, *run.evaluation);
  };
  trying(run, evaluation, fmt::format("run `lacuna evaluate {}` again", shell_word(path.string())),
         read_results, [&] {
           run.evaluation.reset();
           run.predictions.clear();
         });
  if (const fs::path file = path / "profile.json"; fs::exists(file))
    trying(
        run, file, "run `lacuna profile` again, or remove it",
        [&] { run.profile = read_profile(file); }, [] {});
  if (const fs::path file = path / "ladder.json"; fs::exists(file))
    trying(
        run, file, "run `lacuna bench ladder` again, or remove it",
        [&] { run.ladder = read_ladder(file); }, [] {});
  list_unchecked(run);
  return run;
}

std::string damage_words(const Run& run) {
  std::vector<std::string> others;
  for (const Damage& damage : run.damaged) others.push_back(damage.file);
  others.erase(others.begin());
  const std::string& first = run.damaged.at(0).message;
  return others.empty() ? first
                        : fmt::format("{}; damaged, too: {}", first, fmt::join(others, ", "));
}

Run read_run(const fs::path& path) {
  Run run = inspect_run(path);
  if (!run.damaged.empty()) throw Error(damage_words(run));
  return run;
}

std::vector<Run> read_runs(const std::vector<fs::path>& paths) {
  std::set<fs::path> seen;
  std::vector<Run> runs;
  for (const auto& named : paths)
    for (const auto& path : runs_at(named)) {
      runs.push_back(read_run(path));
      if (!seen.insert(fs::canonical(path)).second)
        throw Error("the run {} is named twice; name each run once", path.string());
    }
  // Longer names for those that share one, until all differ.
  for (size_t parts = 2; parts < 64; ++parts) {
    std::multiset<std::string> names;
    for (const auto& run : runs) names.insert(run.name);
    for (auto& run : runs)
      if (names.count(run.name) > 1) run.name = long_name(run.path, parts);
  }
  return runs;
}

}  // namespace lacuna::report
