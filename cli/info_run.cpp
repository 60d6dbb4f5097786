// lacuna info RUN: what a run is and how far it came.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "cli/info.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/run/run_contents.h"

namespace lacuna::cli {
namespace {

using Table = std::vector<std::vector<std::string>>;

// Whether a process trains it just now, as far as the file system has locks.
bool is_being_trained(const fs::path& run) {
  const int file = ::open((run / "lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  const bool is_held = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return is_held;
}

uint64_t epochs_done(const RunContents& run) {
  return run.epochs.empty() ? 0 : run.epochs.back().epoch + 1;
}

// "finished", "stopped", "failed", "running", "killed": what run.json says, but a run that says it
// is running while nobody trains it was killed.
std::string state_of(const RunContents& run) {
  return run.info.status == "running" && !is_being_trained(run.path) ? "killed" : run.info.status;
}

std::string state_words(const RunContents& run) {
  if (run.is_ensemble())
    return run.ensemble ? fmt::format("{}; an ensemble of {} members", state_of(run),
                                      run.ensemble->members.size())
                        : state_of(run) + "; an ensemble, of what is not known";
  const std::string state = state_of(run), epochs = run.setting("train.epochs");
  std::string words =
      run.is_damaged("metrics.jsonl")
          ? state + "; how far it came is not known"
          : fmt::format("{}; {}{} epochs, {} steps", state, epochs_done(run),
                        epochs.empty() ? "" : " of " + epochs, with_commas(run.last_step()));
  if (!run.info.message.empty()) words += "; it said: " + run.info.message;
  if (state == "stopped" || state == "killed" || state == "failed")
    words += fmt::format("; `lacuna train --resume --out {}` goes on", run.path.string());
  return words;
}

// The mean over the labels that have one, as the checkpoint best_pearson is chosen; NaN: none has.
double mean_pearson(const EpochLine& epoch) {
  double sum = 0;
  int count = 0;
  for (const auto& label : epoch.validation) {
    const double pearson = label.metrics.pearson;
    if (!std::isfinite(pearson)) continue;
    sum += pearson;
    ++count;
  }
  return count == 0 ? kNotDefined : sum / count;
}

const EpochLine* best_epoch(const RunContents& run) {
  const EpochLine* best = nullptr;
  for (const EpochLine& epoch : run.epochs)
    if (const double pearson = mean_pearson(epoch);
        std::isfinite(pearson) && (!best || pearson > mean_pearson(*best)))
      best = &epoch;
  return best;
}

std::string recording_words(const RunContents& run) {
  if (run.is_damaged("recording_evaluation.json")) return "damaged";
  const RecordingPartEvaluation* part =
      run.recording_evaluation ? run.recording_evaluation->main_part() : nullptr;
  if (!part || part->scores.empty()) return "not evaluated";
  std::string words =
      fmt::format("checkpoint {}; {}", run.recording_evaluation->checkpoint, part->part);
  for (const RecordingScore& score : part->scores) {
    const double bits = score.bits_per_spike.value;
    words += fmt::format("{} {} {:.3f} bits per spike", &score == part->scores.data() ? "" : ",",
                         score.predictor, std::abs(bits) < 0.0005 ? 0.0 : bits);  // no -0.000
  }
  return words;
}

std::string evaluation_words(const RunContents& run) {
  if (run.is_recording()) return recording_words(run);
  const PartEvaluation* part = run.main_part();
  if (run.is_damaged("evaluation.json")) return "damaged";
  if (!part) return "not evaluated";
  const auto pearson = [](double value) {
    return std::isfinite(value) ? fmt::format("{:.3f}", value) : std::string("not defined");
  };
  std::string words = fmt::format("checkpoint {}", run.evaluation->checkpoint);
  for (const auto& label : part->labels) {
    words += fmt::format("; {} Pearson of {} {}", part->part, label.label,
                         pearson(label.model().metrics.pearson));
    if (std::isfinite(label.ceiling)) words += fmt::format(", noise ceiling {:.3f}", label.ceiling);
    if (const auto* baseline = label.best_baseline())
      words += fmt::format(" (best baseline, {}: {}; the model {})", baseline->predictor,
                           pearson(baseline->metrics.pearson),
                           baseline->difference
                               ? fmt::format("is {}", name(standing(*baseline->difference)))
                               : "was not compared with it; run `lacuna evaluate`");
  }
  return words;
}

std::vector<std::string> damaged_files(const RunContents& run) {
  std::vector<std::string> names;
  for (const Damage& damage : run.damaged) names.push_back(damage.file);
  return names;
}

// Bytes by name, of folders with all that lies in them.
std::map<std::string, uint64_t> files_of(const fs::path& run) {
  std::map<std::string, uint64_t> files;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    if (!entry.is_regular_file()) continue;
    const fs::path inside = entry.path().lexically_relative(run);
    const bool is_deep = inside.has_parent_path();
    files[inside.begin()->string() + (is_deep ? "/" : "")] += entry.file_size();
  }
  return files;
}

std::string member_words(const EnsembleMember& member) {
  std::string words = member.words() + ", weight";
  for (const double weight : member.weights) words += fmt::format(" {:.3f}", weight);
  return words;
}

std::string text_of(const RunContents& run) {
  Table rows;
  const auto add = [&](const char* what, const std::string& words) {
    if (!words.empty()) rows.push_back({what, words});
  };
  for (const Damage& damage : run.damaged) add("damaged", damage.message);
  add("state", state_words(run));
  if (run.is_recording())
    add("recording",
        fmt::format("{} ({} sessions, {} units, {} training windows, rung {})",
                    run.info.recording.path, run.info.recording.sessions.size(),
                    with_commas(run.info.recording.units),
                    with_commas(run.info.recording.windows("train")), run.info.recording.rung));
  else
    add("screen", fmt::format("{}{}", run.info.screen,
                              run.info.samples > 0 ? fmt::format(" ({} genes, {} samples)",
                                                                 with_commas(run.info.genes),
                                                                 with_commas(run.info.samples))
                                                   : ""));
  add("split", run.split());
  if (run.ensemble)
    for (const EnsembleMember& member : run.ensemble->members)
      add(member.name.c_str(), member_words(member));
  if (!run.is_ensemble()) {
    add("graph", run.is_shuffled() ? "shuffled" : "");
    add("model",
        fmt::format("{}{}", run.is_damaged("config.yaml") ? "not known" : run.setting("model.name"),
                    run.info.parameters > 0
                        ? fmt::format(", {} parameters", with_commas(run.info.parameters))
                        : ""));
  }
  if (const EpochLine* best = best_epoch(run))
    add("best",
        fmt::format("validation Pearson {:.3f}{} in epoch {}", mean_pearson(*best),
                    best->validation.size() > 1 ? " (mean over labels)" : "", best->epoch + 1));
  add("evaluation", evaluation_words(run));
  add("device", run.info.device);
  add("started", run.info.started);
  add("ended", run.info.ended);
  add("versions",
      run.info.lacuna_version.empty()
          ? ""
          : fmt::format("lacuna {}, torch {}", run.info.lacuna_version, run.info.torch_version));
  add("made by", run.info.command);
  for (const std::string& note : run.notes) add("note", note);
  if (!run.unchecked.empty())
    add("not checked",
        fmt::format("{}: written before files carried checksums", fmt::join(run.unchecked, ", ")));
  Table files = {{"file", "bytes"}};
  for (const auto& [name, bytes] : files_of(run.path)) files.push_back({name, format_bytes(bytes)});
  return fmt::format("{}: a run\n{}\n{}", run.path.string(), format_table(rows),
                     format_table(files, {1}));
}

// {"weighted": ..., "members": [{"name": ..., "run": ..., "baseline": ..., "weights": [...]}]}
Json json_of(const EnsembleFile& ensemble) {
  Json members = Json::array();
  for (const EnsembleMember& member : ensemble.members)
    members.push_back({{"name", member.name},
                       {"run", member.run.string()},
                       {"baseline", member.baseline.empty() ? Json() : Json(member.baseline)},
                       {"weights", member.weights}});
  return {{"weighted", ensemble.weighted}, {"members", members}};
}

Json json_of(const RunContents& run) {
  Json json = {{"path", run.path.string()},
               {"format", "lacuna.run"},
               {"state", state_of(run)},
               {"message", run.info.message},
               {"epochs", epochs_done(run)},
               {"steps", run.last_step()},
               {"screen",
                {{"path", run.info.screen},
                 {"samples", run.info.samples},
                 {"genes", run.info.genes},
                 {"fingerprint", run.info.fingerprint.to_json()}}},
               {"recording", run.is_recording() ? Json(run.info.recording.path) : Json()},
               {"split", run.split()},
               {"model", run.is_ensemble() ? Json() : Json(run.setting("model.name"))},
               {"ensemble", run.ensemble ? json_of(*run.ensemble) : Json()},
               {"parameters", run.info.parameters},
               {"best", nullptr},
               {"evaluated", run.evaluation.has_value() || run.recording_evaluation.has_value()},
               {"device", run.info.device},
               {"command", run.info.command}};
  if (const EpochLine* best = best_epoch(run))
    json["best"] = {{"epoch", best->epoch}, {"validation_pearson", mean_pearson(*best)}};
  for (const auto& [name, bytes] : files_of(run.path)) json["files"][name] = bytes;
  json["damaged"] = damaged_files(run);
  json["not_checked"] = run.unchecked;
  return json;
}

}  // namespace

void print_run_info(const fs::path& path, bool json) {
  const RunContents run = inspect_run(path);
  if (json)
    fmt::print("{}\n", json_of(run).dump(2));
  else
    fmt::print("{}", text_of(run));
  if (!run.damaged.empty()) throw Error(damage_words(run));
}

int training_exit_code(const fs::path& path) {
  const std::string status = read_run_info(path).status;
  return status == "finished" ? 0 : status == "stopped" ? kResumeMe : 1;
}

}  // namespace lacuna::cli
