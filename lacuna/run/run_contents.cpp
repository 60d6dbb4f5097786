#include "lacuna/run/run_contents.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/run/config.h"
#include "lacuna/run/evaluation/evaluation_file.h"

namespace lacuna {
namespace {

// Runs read(), of a file that a run can do without: damage is listed.
void trying(RunContents& run, const char* file, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    run.damaged.push_back({file, error.what()});
  }
}

void read_config_of(const fs::path& file, RunContents& run) {
  if (!fs::exists(file)) {
    run.notes.push_back("There is no config.yaml.");
    return;
  }
  const std::string text = read_sealed_yaml(file);
  if (text.empty())
    throw Error("{} is damaged: it is empty; restore it, or delete it to do without",
                file.string());
  run.settings = settings_of(text, file.string());
  run.config = text;
}

void read_metrics_of(const fs::path& file, RunContents& run) {
  if (!fs::exists(file)) {
    if (run.is_ensemble()) return;  // which takes no steps
    run.notes.push_back(run.info.metrics_end.empty()
                            ? "There is no metrics.jsonl: no step was logged."
                            : "There is no metrics.jsonl any more: what was logged is lost.");
    return;
  }
  MetricsLog log = read_metrics(file, run.info.metrics_end);
  run.steps = std::move(log.steps);
  run.epochs = std::move(log.epochs);
  if (!log.state.is_checked) run.unchecked.push_back("metrics.jsonl");
  if (log.state.torn_line)
    run.notes.push_back(
        fmt::format("The last line of metrics.jsonl (line {}) is torn, as by a crash while it was "
                    "written; it was left out.",
                    *log.state.torn_line));
}

void read_results_of(const fs::path& path, RunContents& run) {
  if (!fs::exists(path / "evaluation.json")) return;
  Evaluation evaluation = read_evaluation(path);
  run.predictions = read_predictions(path, evaluation);
  run.evaluation = std::move(evaluation);
}

// Files that Lacuna seals today, and older ones did not.
void list_unchecked(RunContents& run) {
  for (const char* name :
       {"run.json", "config.yaml", "evaluation.json", "recording_evaluation.json", kExplanationFile,
        kEnsembleFile, "profile.json", "ladder.json"}) {
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

// The last `parts` names of the path.
std::string long_name(const fs::path& path, size_t parts) {
  fs::path rest = fs::absolute(path).lexically_normal(), name;
  if (!rest.has_filename()) rest = rest.parent_path();
  for (size_t i = 0; i < parts && rest.has_filename(); ++i, rest = rest.parent_path())
    name = name.empty() ? rest.filename() : rest.filename() / name;
  return name.string();
}

}  // namespace

bool RunContents::is_damaged(std::string_view file) const {
  return std::any_of(damaged.begin(), damaged.end(),
                     [&](const Damage& damage) { return damage.file == file; });
}

std::string RunContents::setting(const std::string& key) const {
  const auto found = settings.find(key);
  return found == settings.end() ? "" : found->second;
}

std::string RunContents::split() const {
  return evaluation && !evaluation->split.empty() ? evaluation->split : setting("split");
}

uint64_t RunContents::last_step() const {
  return std::max(steps.empty() ? 0 : steps.back().step, epochs.empty() ? 0 : epochs.back().step);
}

std::vector<std::string> RunContents::label_names(uint64_t count) const {
  std::vector<std::string> names;
  const PartEvaluation* evaluated = main_part();
  if (evaluated && evaluated->labels.size() == count)
    for (const auto& label : evaluated->labels) names.push_back(label.label);
  else if (!epochs.empty() && epochs.back().validation.size() == count)
    for (const auto& label : epochs.back().validation) names.push_back(label.label);
  else
    for (uint64_t l = 0; l < count; ++l)
      names.push_back(count == 1 ? "label" : fmt::format("label {}", l + 1));
  return names;
}

const PartEvaluation* RunContents::main_part() const {
  return evaluation ? evaluation->main_part() : nullptr;
}

RunContents inspect_run(const fs::path& path) {
  if (!fs::is_directory(path))
    throw Error("{} is not a directory; give the folder that `lacuna train --out` wrote",
                path.string());
  if (!fs::exists(path / "run.json"))
    throw Error("{} has no run.json; is it a run? `lacuna train CONFIG --out RUN` makes one",
                path.string());
  RunContents run;
  run.path = path;
  run.name = long_name(path, 1);
  run.info = read_run_info(path);
  trying(run, "config.yaml", [&] { read_config_of(path / "config.yaml", run); });
  if (run.info.screen.empty()) run.info.screen = run.setting("screen");
  trying(run, kEnsembleFile, [&] { run.ensemble = read_ensemble_file(path); });
  trying(run, "metrics.jsonl", [&] { read_metrics_of(path / "metrics.jsonl", run); });
  trying(run, "evaluation.json", [&] { read_results_of(path, run); });
  if (fs::exists(recording_evaluation_file(path)))
    trying(run, "recording_evaluation.json",
           [&] { run.recording_evaluation = read_recording_evaluation(path); });
  if (const fs::path file = path / kExplanationFile; fs::exists(file))
    trying(run, kExplanationFile, [&] { run.explanation = read_explanation(file); });
  if (const fs::path file = path / "profile.json"; fs::exists(file))
    trying(run, "profile.json", [&] { run.profile = read_profile(file); });
  if (const fs::path file = path / "ladder.json"; fs::exists(file))
    trying(run, "ladder.json", [&] {
      if (run.is_recording())
        run.recording_ladder = read_recording_ladder(file);
      else
        run.ladder = read_ladder(file);
    });
  list_unchecked(run);
  return run;
}

std::string damage_words(const RunContents& run) {
  std::vector<std::string> others;
  for (const Damage& damage : run.damaged) others.push_back(damage.file);
  others.erase(others.begin());
  const std::string& first = run.damaged.at(0).message;
  return others.empty() ? first
                        : fmt::format("{}; damaged, too: {}", first, fmt::join(others, ", "));
}

RunContents read_run(const fs::path& path) {
  RunContents run = inspect_run(path);
  if (!run.damaged.empty()) throw Error(damage_words(run));
  return run;
}

std::vector<RunContents> read_runs(const std::vector<fs::path>& paths) {
  std::set<fs::path> seen;
  std::vector<RunContents> runs;
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

}  // namespace lacuna
