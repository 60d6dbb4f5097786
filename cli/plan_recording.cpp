#include "cli/plan_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/load/session_order.h"
#include "lacuna/plan/ladder_words.h"
#include "lacuna/plan/recording_plan.h"
#include "lacuna/screen/import/table.h"

namespace lacuna::cli {
namespace {

// "FOLDER=SIZE": as given; "FOLDER": as it has free; "SIZE": of the recording's own folder.
PlanDisk disk_from_text(const std::string& text, const fs::path& beside) {
  if (const size_t equal = text.rfind('='); equal != text.npos)
    return {text.substr(0, equal), double(bytes_from_text(text.substr(equal + 1)))};
  if (fs::is_directory(text)) return {text, double(free_disk_bytes(text))};
  return {beside, double(bytes_from_text(text))};
}

std::string or_dash(double value, const std::string& text) { return value > 0 ? text : "-"; }

std::string pays_back(const RecordingRungPlan& rung) {
  if (rung.pays_back) return format_epochs(*rung.pays_back);
  return rung.prepare_seconds + rung.start_seconds > 0 ? "never" : "-";
}

void print_rungs(const RecordingPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"rung", "on disk", "in memory", "moved/batch",
                                                 "prepare", "start", "ms/batch", "cold ms", "epoch",
                                                 "total", "pays back", "lost", "fits", ""}};
  const auto bytes = [](double value) { return format_bytes(uint64_t(value)); };
  for (const RecordingRungPlan& rung : plan.rungs)
    rows.push_back({name(rung.rung), or_dash(rung.disk_bytes, bytes(rung.disk_bytes)),
                    bytes(rung.memory_bytes), bytes(rung.moved_bytes),
                    or_dash(rung.prepare_seconds, format_seconds(rung.prepare_seconds)),
                    or_dash(rung.start_seconds, format_seconds(rung.start_seconds)),
                    format_digits(1000 * rung.batch_seconds),
                    or_dash(rung.cold_seconds, format_digits(1000 * rung.cold_seconds)),
                    format_seconds(rung.epoch_seconds), format_seconds(rung.total_seconds),
                    pays_back(rung), rung.lost.empty() ? "nothing" : "digits",
                    rung.fits() ? "yes" : "no", plan.pick == rung.rung ? "<- picked" : ""});
  fmt::print("{}", format_table(rows, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

// "NAME=SHARE" of sessions, else of subjects, whose share their sessions divide by their length.
std::vector<double> shares_of_names(const std::vector<std::string>& texts,
                                    const Recording& recording, const RecordingSizes& sizes) {
  std::vector<std::string> names, subjects;
  std::vector<uint64_t> first = {0};
  for (size_t s = 0; s < recording.sessions().size(); ++s) {
    names.push_back(recording.sessions()[s].name);
    subjects.push_back(recording.sessions()[s].subject);
    first.push_back(first.back() + sizes.session_frames[s]);
  }
  std::vector<std::pair<std::string, double>> weights;
  for (const std::string& text : texts) {
    const size_t equal = std::min(text.rfind('='), text.size() - 1);
    const auto share = parse_number(std::string_view(text).substr(equal + 1));
    if (!share || !(*share > 0))
      throw UsageError("--weights {}: write NAME=SHARE with a share above 0, such as m1=3", text);
    weights.emplace_back(text.substr(0, equal), *share);
  }
  return weights_of_names(weights, names, subjects, first);
}

std::vector<double> shares_for(const RecordingPlanArguments& arguments, const Recording& recording,
                               const RecordingSizes& sizes) {
  if (!arguments.weights.empty()) return shares_of_names(arguments.weights, recording, sizes);
  if (session_mix_from_name(arguments.mix) == SessionMix::balanced)
    return std::vector<double>(sizes.session_frames.size(), 1.0);
  return {};
}

}  // namespace

void plan_recording_command(const RecordingPlanArguments& arguments) {
  RecordingPlanSettings settings;
  settings.transforms = frame_transforms_from_names(arguments.transforms);
  const Recording recording = Recording::open(arguments.recording);
  const fs::path beside = fs::absolute(recording.path() / "").parent_path().parent_path();
  Machine machine = probe_machine(beside);
  if (!arguments.memory.empty())
    machine.memory = {double(bytes_from_text(arguments.memory)), "--memory"};
  std::vector<PlanDisk> disks;
  for (const std::string& text : arguments.disks) disks.push_back(disk_from_text(text, beside));
  if (disks.empty()) disks.push_back({beside, machine.disk_free.value});
  const auto is_same = [&](const Fingerprint& profiled) {
    return profiled.differing_parts(recording.fingerprint()).empty();
  };
  const auto ranks = rank_plan(arguments.ranks, {"recording", recording.path(), is_same}, machine);
  const RecordingSizes sizes = RecordingSizes::of(recording, arguments.field, arguments.lags);
  const RecordingCosts costs = measure_recording_costs(recording, arguments.field, arguments.lags,
                                                       arguments.threads, machine.disk_read.value);
  settings.epochs = arguments.epochs;
  settings.batch = arguments.ranks.batch;
  settings.ranks = arguments.ranks.ranks;
  settings.threads = arguments.threads;
  settings.demand = arguments.demand;
  settings.cast = dtype_from_name(arguments.cast);
  settings.shares = shares_for(arguments, recording, sizes);
  settings.is_weighed = arguments.is_weighed;
  const RecordingPlan plan = plan_recording(sizes, costs, machine, disks, settings);
  if (arguments.json) {
    Json json = to_json(plan);
    json["machine"] = to_json(machine);
    json["costs"] = to_json(costs);
    json["frames"] = sizes.frames();
    json["frame_bytes"] = sizes.frame_bytes();
    if (ranks) json["step_of_ranks"] = to_json(*ranks);
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("memory {} ({}); {:.0f} cores; {}\n", format_bytes(uint64_t(machine.memory.value)),
             machine.memory.from, machine.cores.value, machine.gpu ? machine.gpu->name : "no GPU");
  for (const PlanDisk& disk : disks)
    fmt::print("disk {}: {} free\n", disk.folder.string(), format_bytes(uint64_t(disk.free)));
  fmt::print(
      "{}: {} sessions, {} frames of {} pixels, {} as u8; compressed (lz4) {:.1f}x smaller, "
      "decoded "
      "at {}/s by {} threads\n",
      recording.path().string(), recording.sessions().size(), with_commas(sizes.frames()),
      with_commas(sizes.pixels), format_bytes(uint64_t(sizes.frame_bytes())), costs.ratio,
      format_bytes(uint64_t(costs.unpack)), costs.threads);
  fmt::print("batch {}, {} lags, {} epochs, {} ranks, {} loader threads each\n\n", settings.batch,
             sizes.lags, settings.epochs, settings.ranks, settings.threads);
  print_rungs(plan);
  fmt::print("\npicked: {}{}\n", plan.pick ? name(*plan.pick) + ": " : "none: ", plan.reason);
  if (!plan.notes.empty()) fmt::print("\nnotes\n");
  for (const std::string& note : plan.notes) fmt::print("  {}\n", note);
  print_ranks(arguments.ranks, ranks);
}

}  // namespace lacuna::cli
