#include "lacuna/report/run_contents.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/text/text.h"
#include "lacuna/store/npy.h"

namespace lacuna::report {
namespace {

Json parse_file(const fs::path& file) {
  return parse_sealed_json(read_text(file), file.string() + " is damaged").json;
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

std::vector<ProfileEntry> read_profile_entries(const Json& json, const char* key) {
  std::vector<ProfileEntry> entries;
  if (!json.contains(key) || json.at(key).is_null()) return entries;
  for (const auto& entry : json.at(key))
    entries.push_back({.category = entry.at("category").get<std::string>(),
                       .ms = number_of(entry, "ms"),
                       .share = number_of(entry, "share")});
  return entries;
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

}  // namespace

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

std::string read_run_config(const fs::path& file) {
  std::string text = read_sealed_yaml(file);
  if (text.empty())
    throw Error("{} is damaged: it is empty; restore it, or delete it to do without",
                file.string());
  return text;
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

Ladder read_ladder(const fs::path& file) {
  const Json json = parse_file(file);
  check_format(file, json, "lacuna.ladder");
  return ladder_from_json(json);
}

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

}  // namespace lacuna::report
