#include "lacuna/report/run_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/text.h"
#include "lacuna/report/measured_on.h"

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

Json parse_file(const fs::path& file) {
  return parse_sealed_json(read_text(file), file.string() + " is damaged").json;
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

double number_of(const Json& json, const char* key) {
  if (!json.contains(key) || json.at(key).is_null()) return kNotDefined;
  return json.at(key).get<double>();
}
uint64_t count_of(const Json& json, const char* key) {
  if (!json.contains(key) || json.at(key).is_null()) return 0;
  return json.at(key).get<uint64_t>();
}
std::string text_of(const Json& json, const char* key) {
  if (!json.contains(key) || json.at(key).is_null()) return "";
  const Json& value = json.at(key);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// {"screen": {"path": ..., "fingerprint": {...}}}; empty where a file does not say.
std::string screen_path_of(const Json& json) {
  return json.contains("screen") ? text_of(json.at("screen"), "path") : "";
}
Fingerprint screen_fingerprint_of(const Json& json) {
  if (!json.contains("screen")) return {};
  const Json& screen = json.at("screen");
  if (!screen.contains("fingerprint") || !screen.at("fingerprint").is_object()) return {};
  return Fingerprint::from_json(screen.at("fingerprint"));
}

void check_format(const fs::path& file, const Json& json, const std::string& format) {
  const std::string found = json.at("format").get<std::string>();
  if (found != format) throw Error("{} says format '{}', not '{}'", file.string(), found, format);
  if (json.at("version").get<int>() > 1)
    throw Error("{} was written by a newer Lacuna (version {} of {}); use that one", file.string(),
                json.at("version").get<int>(), format);
}

// ---- metrics

Estimate read_estimate(const Json& json, const char* key) {
  Estimate estimate = {number_of(json, key), kNotDefined, kNotDefined};
  if (!json.contains("interval") || !json.at("interval").contains(key)) return estimate;
  const Json& interval = json.at("interval").at(key);
  if (!interval.is_array() || interval.size() != 2 || interval[0].is_null() ||
      interval[1].is_null())
    return estimate;
  estimate.low = interval[0].get<double>();
  estimate.high = interval[1].get<double>();
  return estimate;
}

Metrics read_metrics(const Json& json) {
  return {.count = count_of(json, "count"),
          .pearson = read_estimate(json, "pearson"),
          .spearman = read_estimate(json, "spearman"),
          .mse = read_estimate(json, "mse")};
}

Estimate read_difference(const Json& json) {
  const auto number = [](const Json& value) {
    return value.is_null() ? kNotDefined : value.get<double>();
  };
  const Json& interval = json.at("interval");
  return {number(json.at("value")), number(interval.at(0)), number(interval.at(1))};
}

std::optional<Lead> read_lead(const Json& json) {
  if (!json.contains("difference")) return {};
  const Json& difference = json.at("difference");
  return Lead{.pearson = read_difference(difference.at("pearson")),
              .spearman = read_difference(difference.at("spearman")),
              .mse = read_difference(difference.at("mse")),
              .judged_by = difference.at("judged_by").get<std::string>(),
              .model_is = difference.at("model_is").get<std::string>()};
}

std::vector<NamedMetrics> read_named_metrics(const Json& json, const char* key) {
  std::vector<NamedMetrics> all;
  if (!json.contains(key) || json.at(key).is_null()) return all;
  for (const auto& [name, metrics] : json.at(key).items())
    all.push_back({name, read_metrics(metrics), text_of(metrics, "note"), read_lead(metrics)});
  return all;
}

void add_metrics_line(const Json& json, Run& run) {
  const std::string kind = json.at("kind").get<std::string>();
  const uint64_t epoch = json.at("epoch").get<uint64_t>(), step = json.at("step").get<uint64_t>();
  // A run that was resumed goes back to its checkpoint and logs what follows once more.
  if (kind == "step") {
    while (!run.steps.empty() && run.steps.back().step >= step) run.steps.pop_back();
    while (!run.epochs.empty() && run.epochs.back().step > step) run.epochs.pop_back();
    run.steps.push_back({.epoch = epoch,
                         .step = step,
                         .loss = number_of(json, "loss"),
                         .lr = number_of(json, "lr"),
                         .samples_per_s = number_of(json, "samples_per_s"),
                         .seconds = number_of(json, "seconds")});
  } else if (kind == "epoch") {
    while (!run.epochs.empty() && run.epochs.back().epoch >= epoch) run.epochs.pop_back();
    run.epochs.push_back({.epoch = epoch,
                          .step = step,
                          .train_loss = number_of(json, "train_loss"),
                          .seconds = number_of(json, "seconds"),
                          .validation = read_named_metrics(json, "validation")});
  }
}

// Throws Error, or Json::exception, where a line is damaged.
Json read_metrics_line(std::string_view line) {
  if (seal_of_json_line(line) == Seal::broken) throw Error("{}", broken_seal_words());
  return parse_json(line, "");
}

// Lines that were lost at the end leave whole ones: a run that has ended names its last.
void check_metrics_end(const fs::path& file, const std::string& text, const Run& run) {
  if (run.metrics_end.empty()) return;
  const std::string_view lines = std::string_view(text).substr(0, text.find_last_not_of('\n') + 1);
  const size_t before = lines.rfind('\n');
  const std::string_view last = before == lines.npos ? lines : lines.substr(before + 1);
  if (hex(hash64(last)) != run.metrics_end)
    throw Error(
        "{} is damaged: its last line is not the one that run.json names; restore it, or delete it "
        "to do without what was logged",
        file.string());
}

void read_metrics_file(const fs::path& file, Run& run) {
  if (!fs::exists(file)) {
    run.notes.push_back(run.metrics_end.empty()
                            ? "There is no metrics.jsonl: no step was logged."
                            : "There is no metrics.jsonl any more: what was logged is lost.");
    return;
  }
  const std::string text = read_text(file);
  check_metrics_end(file, text, run);
  uint64_t number = 0;
  bool is_sealed = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const bool is_last = end + 1 >= text.size();
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    is_sealed = is_sealed && seal_of_json_line(line) != Seal::none;
    try {
      add_metrics_line(read_metrics_line(line), run);
    } catch (const std::exception&) {  // of JSON, or ours
      if (!is_last)
        throw Error("line {} of {} is damaged; delete that line to report on the others", number,
                    file.string());
      run.notes.push_back(
          fmt::format("The last line of metrics.jsonl (line {}) is torn, as by a crash while it "
                      "was written; it was left out.",
                      number));
    }
  }
  if (!is_sealed) run.unchecked.push_back("metrics.jsonl");
}

// ---- the other files

std::string read_run_config(const fs::path& file) {
  std::string text = read_sealed_yaml(file);
  if (text.empty())
    throw Error("{} is damaged: it is empty; restore it, or delete it to do without",
                file.string());
  return text;
}

void read_run_json(const fs::path& file, Run& run) {
  const Json json = parse_file(file);
  check_format(file, json, "lacuna.run");
  run.status = json.at("status").get<std::string>();
  run.message = text_of(json, "message");
  run.command = text_of(json, "command");
  run.lacuna_version = text_of(json, "lacuna");
  run.torch_version = text_of(json, "torch");
  run.device = text_of(json, "device");
  run.started = text_of(json, "started");
  run.ended = text_of(json, "ended");
  run.metrics_end = text_of(json, "metrics_end");
  run.parameters = count_of(json, "parameters");
  run.screen_path = screen_path_of(json);
  run.screen_fingerprint = screen_fingerprint_of(json);
  if (!json.contains("screen")) return;
  const Json& screen = json.at("screen");
  run.samples = count_of(screen, "samples");
  run.genes = count_of(screen, "genes");
  run.edges = count_of(screen, "edges");
}

Evaluation read_evaluation(const fs::path& file) {
  const Json json = parse_file(file);
  check_format(file, json, "lacuna.evaluation");
  Evaluation evaluation;
  evaluation.split = text_of(json, "split");
  evaluation.checkpoint = text_of(json, "checkpoint");
  if (json.contains("bootstrap")) {
    evaluation.rounds = count_of(json.at("bootstrap"), "rounds");
    evaluation.level = number_of(json.at("bootstrap"), "level");
  }
  evaluation.notes = json.value("notes", std::vector<std::string>());
  evaluation.files = FileSet::from_index(file.parent_path(), json);
  evaluation.files.check();
  for (const auto& [part, contents] : json.at("parts").items()) {
    PartEvaluation result = {.part = part, .samples = count_of(contents, "samples"), .labels = {}};
    if (contents.contains("resampled")) {
      result.unit = contents.at("resampled").at("unit").get<std::string>();
      result.units = count_of(contents.at("resampled"), "count");
      result.why = text_of(contents.at("resampled"), "why");
    }
    for (const auto& [label, of_label] : contents.at("labels").items())
      result.labels.push_back({.label = label,
                               .model = read_metrics(of_label.at("model")),
                               .baselines = read_named_metrics(of_label, "baselines")});
    evaluation.parts.push_back(std::move(result));
  }
  return evaluation;
}

std::vector<ProfileEntry> read_profile_entries(const Json& json, const char* key) {
  std::vector<ProfileEntry> entries;
  if (!json.contains(key) || json.at(key).is_null()) return entries;
  for (const auto& entry : json.at(key))
    entries.push_back({.category = entry.at("category").get<std::string>(),
                       .ms = number_of(entry, "ms"),
                       .share = number_of(entry, "share")});
  return entries;
}

Profile read_profile(const fs::path& file) {
  const Json json = parse_file(file);
  check_format(file, json, "lacuna.profile");
  return {.device = text_of(json, "device"),
          .largest = text_of(json, "largest"),
          .machine = text_of(json, "machine"),
          .date = text_of(json, "date"),
          .config = text_of(json, "config"),
          .screen_path = screen_path_of(json),
          .screen_fingerprint = screen_fingerprint_of(json),
          .steps = count_of(json, "steps"),
          .batch = count_of(json, "batch"),
          .wall_ms_per_step = number_of(json, "wall_ms_per_step"),
          .cpu = read_profile_entries(json, "cpu"),
          .gpu = read_profile_entries(json, "gpu")};
}

LadderRow read_ladder_row(const Json& row, const char* name) {
  LadderRow result = {.name = row.at(name).get<std::string>(),
                      .samples_per_s = number_of(row, "samples_per_s"),
                      .ms_per_batch = number_of(row, "ms_per_batch"),
                      .read_ms_per_batch = number_of(row, "read_ms_per_batch"),
                      .planned_ms_per_batch = number_of(row, "planned_ms_per_batch"),
                      .train_steps_per_s = number_of(row, "train_steps_per_s"),
                      .stored_bytes_per_sample = number_of(row, "stored_bytes_per_sample"),
                      .moved_bytes_per_sample = number_of(row, "moved_bytes_per_sample"),
                      .host_peak_bytes = number_of(row, "host_peak_bytes"),
                      .device_peak_bytes = number_of(row, "device_peak_bytes"),
                      .is_exact = {},
                      .left_out = text_of(row, "left_out")};
  if (row.contains("exact")) result.is_exact = row.at("exact").get<bool>();
  return result;
}

Ladder read_ladder(const fs::path& file) {
  const Json json = parse_file(file);
  check_format(file, json, "lacuna.ladder");
  return ladder_from_json(json);
}

// ---- predictions

std::vector<uint64_t> read_sample_numbers(const fs::path& file) {
  const Array array = read_npy(file);
  if (array.dtype() == DType::u64) {
    const auto values = array.as<uint64_t>();
    return {values.begin(), values.end()};
  }
  if (array.dtype() != DType::u32)
    throw Error("{} has dtype {}, where numbers of samples are u32 or u64", file.string(),
                name(array.dtype()));
  const auto values = array.as<uint32_t>();
  return {values.begin(), values.end()};
}

Predictions read_predictions(const fs::path& run, const FileSet& files, const std::string& part) {
  // With checksums the file that has them; an older version's as it stands.
  const auto path = [&](const char* what) {
    const std::string name = fmt::format("predictions/{}.{}.npy", part, what);
    return files.files().empty() ? run / name : files.find(name);
  };
  const std::string stem = (run / "predictions" / part).string();
  Predictions result = {.part = part,
                        .sample = read_sample_numbers(path("sample")),
                        .predicted = read_npy(path("predicted")),
                        .measured = read_npy(path("measured")),
                        .label_count = 1};
  const Shape& shape = result.predicted.shape();
  if (shape.size() == 2) result.label_count = shape[1];
  const bool fits = (shape.size() == 1 || shape.size() == 2) && shape[0] == result.sample.size() &&
                    result.measured.shape() == shape && result.predicted.dtype() == DType::f32 &&
                    result.measured.dtype() == DType::f32;
  if (!fits)
    throw Error(
        "{}.*.npy do not belong together: predicted and measured must be f32 [samples, "
        "labels] for the {} samples; run `lacuna evaluate {}` again",
        stem, result.sample.size(), shell_word(run.string()));
  return result;
}

// Test first, then validation, then others by name.
// Of the parts that were evaluated: what else lies there was not written by that evaluation.
std::vector<Predictions> read_all_predictions(const fs::path& run, const Evaluation& evaluation) {
  std::vector<Predictions> all;
  std::set<std::string> others;
  for (const PartEvaluation& evaluated : evaluation.parts) {
    const std::string name = fmt::format("predictions/{}.predicted.npy", evaluated.part);
    if (evaluation.files.files().empty() ? fs::exists(run / name)
                                         : evaluation.files.listed(name) != nullptr)
      others.insert(evaluated.part);
  }
  const auto read = [&](const std::string& part) {
    all.push_back(read_predictions(run, evaluation.files, part));
  };
  for (const std::string part : {"test", "validation"})
    if (others.erase(part) > 0) read(part);
  for (const auto& part : others) read(part);
  return all;
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

Ladder ladder_from_json(const Json& json) {
  Ladder ladder = {.machine = text_of(json, "machine"),
                   .date = text_of(json, "date"),
                   .screen_path = screen_path_of(json),
                   .screen_fingerprint = screen_fingerprint_of(json),
                   .training = text_of(json, "training"),
                   .load = number_of(json, "load"),
                   .samples = count_of(json, "samples"),
                   .batch = count_of(json, "batch"),
                   .rungs = {},
                   .peers = {}};
  for (const Json& rung : json.at("rungs")) ladder.rungs.push_back(read_ladder_row(rung, "rung"));
  if (!json.contains("peers")) return ladder;
  for (const Json& peer : json.at("peers")) ladder.peers.push_back(read_ladder_row(peer, "name"));
  return ladder;
}

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
