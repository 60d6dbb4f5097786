// `lacuna plan`: what every rung would cost here, and the one to take.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/data_kind.h"
#include "cli/plan_ranks.h"
#include "cli/plan_recording.h"
#include "cli/terminal.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"
#include "lacuna/plan/ladder_plan.h"
#include "lacuna/plan/ladder_words.h"
#include "lacuna/recording/recording.h"
#include "lacuna/run/config.h"
#include "lacuna/screen/screen.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(Sizes are those of this screen's masks; what the steps of loading cost is measured on this machine
before the table is made (about two seconds). ms/batch is the loader's, with the store in the
system's file cache; an epoch holds the way to the GPU and what memory cannot keep of a store too.
Neither holds the model: --config CONFIG takes a few of its steps on this screen and says how long
the training takes here, and what would make it shorter. docs/ladder.md explains the rungs.

Of a recording the table also says what is lost in precision, and how well its own frames compress.
`pays back`: epochs after which preparing or loading beats reading the recording as it lies.

Examples:
  lacuna plan demo
  lacuna plan --config configs/demo.yaml
  lacuna plan movies --memory 504GB --disk /small=258GB --disk /big=1.4TB --transforms crop,whiten
  lacuna plan demo --samples 20000000 --epochs 50
  lacuna plan demo --memory 64GB --disk 1.5TB --json
  lacuna profile config.yaml --set train.batch=7 --out share
  lacuna plan demo --batch 28 --ranks 4 --profile share       # how long a step of four ranks takes)";

struct Arguments {
  fs::path screen, out;
  PlanSettings plan;
  int threads = 2;
  std::string memory;
  std::vector<std::string> disks;
  bool json = false;
  std::vector<fs::path> profiles;  // for --ranks
  std::string link;

  RankPlanArguments of_ranks() const { return {plan.ranks, plan.batch, profiles, link}; }

  RecordingPlanArguments recording;
  PlanTrainingCall training;
};

bool is_of(const Screen& screen, const Fingerprint& profiled) {
  return profiled.only({"genes"}).differing_parts(screen.fingerprint()).empty();
}

Machine machine_for(const Arguments& arguments, const Screen& screen) {
  const fs::path beside = fs::absolute(screen.path() / "").parent_path().parent_path();
  Machine machine = probe_machine(arguments.out.empty() ? beside : arguments.out);
  if (!arguments.memory.empty())
    machine.memory = {double(bytes_from_text(arguments.memory)), "--memory"};
  if (arguments.disks.size() > 1) throw UsageError("several --disk are for recordings");
  if (!arguments.disks.empty())
    machine.disk_free = {double(bytes_from_text(arguments.disks[0])), "--disk"};
  return machine;
}

std::string rate(const Figure& figure) { return format_bytes(uint64_t(figure.value)) + "/s"; }

// ---- for people

void print_machine(const Machine& machine, const StepCosts& costs) {
  const auto bytes = [](const Figure& figure) { return format_bytes(uint64_t(figure.value)); };
  std::vector<std::vector<std::string>> rows = {
      {"memory", bytes(machine.memory), machine.memory.from},
      {"disk", bytes(machine.disk_free) + " free", machine.disk_free.from},
      {"  writes", rate(machine.disk_write), machine.disk_write.from},
      {"  reads", rate(machine.disk_read), machine.disk_read.from},
      {"cores", fmt::format("{:.0f}", machine.cores.value), machine.cores.from},
      {"memory copy", rate(machine.memory_copy), machine.memory_copy.from},
      {"GPU", machine.gpu ? machine.gpu->name : "none", machine.gpu_from}};
  if (machine.gpu) {
    rows.push_back({"  memory", bytes(machine.gpu->memory), machine.gpu->memory.from});
    rows.push_back({"  link", rate(machine.gpu->link), machine.gpu->link.from});
    rows.push_back({"  bandwidth", rate(machine.gpu->bandwidth), machine.gpu->bandwidth.from});
  }
  fmt::print("{}", format_table(rows));
  fmt::print("machine probed in {}; steps of loading timed in {}, {} threads\n\n",
             format_seconds(machine.seconds), format_seconds(costs.seconds), costs.threads);
}

std::string or_dash(double value, const std::string& text) { return value > 0 ? text : "-"; }

std::string pays_back(const RungPlan& rung) {
  if (rung.pays_back) return format_epochs(*rung.pays_back);
  return is_made_before(rung.rung) ? "never" : "-";
}

std::string mark(const LadderPlan& plan, Rung rung) {
  if (plan.pick == rung) return "<- picked";
  return plan.masks_pick == rung ? "<- best with masks" : "";
}

void print_ladder(const LadderPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"rung", "on disk", "in memory", "moved/batch",
                                                 "prepare", "start", "ms/batch", "epoch",
                                                 "pays back", "fits", ""}};
  for (const RungPlan& rung : plan.rungs) {
    const double once = rung.prepare_seconds;
    rows.push_back({name(rung.rung),
                    or_dash(rung.disk_bytes, format_bytes(uint64_t(rung.disk_bytes))),
                    format_bytes(uint64_t(rung.memory_bytes)),
                    format_bytes(uint64_t(rung.moved_bytes)), or_dash(once, format_seconds(once)),
                    or_dash(rung.start_seconds, format_seconds(rung.start_seconds)),
                    format_digits(1000 * rung.batch_seconds), format_seconds(rung.epoch_seconds),
                    pays_back(rung), rung.fits() ? "yes" : "no", mark(plan, rung.rung)});
  }
  fmt::print("{}", format_table(rows, {1, 2, 3, 4, 5, 6, 7, 8}));
}

void print_reasons(const LadderPlan& plan) {
  const auto print = [](const char* what, const std::optional<Rung>& rung,
                        const std::string& reason) {
    fmt::print("{}: {}{}\n", what, rung ? fmt::format("{}: ", name(*rung)) : "", reason);
  };
  fmt::print("\n");
  print("picked", plan.pick, plan.reason);
  if (plan.pick != plan.masks_pick)
    print("for a model that reads masks", plan.masks_pick, plan.masks_reason);
  if (!plan.notes.empty()) fmt::print("\nnotes\n");
  for (const std::string& note : plan.notes) fmt::print("  {}\n", note);
}

// The training of --config, of this data unless it is told otherwise; nothing without one. First of
// all, for `lacuna` becomes another program here.
std::optional<Json> pace_of(const Arguments& arguments) {
  PlanTrainingCall call = arguments.training;
  if (call.config.empty()) {
    if (!call.settings.empty()) throw UsageError("--set goes with --config");
    return {};
  }
  call.settings.insert(call.settings.begin(), "screen=" + arguments.screen.string());
  return training_pace(call);
}

void print_training(const std::optional<Json>& pace) {
  if (!pace) {
    fmt::print("\ntraining: with --config CONFIG it is timed how long it takes here\n");
    return;
  }
  const auto text = [&](const char* key) { return pace->at(key).get<std::string>(); };
  fmt::print("\ntraining: {}\n  {}, and its validations\n", text("what"), text("words"));
  if (!text("advice").empty()) fmt::print("  {}\n", text("advice"));
}

void run_recording(const Arguments& arguments, const CLI::App& command) {
  if (!arguments.training.config.empty() || !arguments.training.settings.empty())
    throw UsageError("--config is for screens; the first line of `lacuna train` times a recording");
  for (const char* option : {"--samples", "--out"})
    if (command.count(option) > 0) throw UsageError("{} is for screens", option);
  RecordingPlanArguments recording = arguments.recording;
  recording.recording = arguments.screen;
  recording.memory = arguments.memory;
  recording.disks = arguments.disks;
  recording.epochs = arguments.plan.epochs;
  recording.threads = arguments.threads;
  recording.ranks = arguments.of_ranks();
  recording.ranks.batch = command.count("--batch") > 0 ? arguments.plan.batch : kRecordingBatch;
  recording.json = arguments.json;
  plan_recording_command(recording);
}

// Of the config, where DATA is not given.
fs::path data_of(const PlanTrainingCall& training) {
  if (training.config.empty())
    throw UsageError("DATA is required, or --config of a training that names it");
  const Config config = read_config(training.config, training.settings);
  return config.kind() == DataKind::recording ? config.recording.path : config.screen;
}

void run(Arguments arguments, const CLI::App& command) {
  if (arguments.screen.empty()) arguments.screen = data_of(arguments.training);
  if (is_recording_at(arguments.screen)) return run_recording(arguments, command);
  for (const char* option : {"--transforms", "--lags", "--field", "--cast", "--mix", "--weights",
                             "--weighed", "--demand"})
    if (command.count(option) > 0) throw UsageError("{} is for recordings", option);
  const auto pace = pace_of(arguments);
  const Screen screen = Screen::open(arguments.screen);
  const Machine machine = machine_for(arguments, screen);
  const auto is_measured = [&](const Fingerprint& profiled) { return is_of(screen, profiled); };
  const auto ranks =
      rank_plan(arguments.of_ranks(), {"screen", screen.path(), is_measured}, machine);
  const auto [sizes, costs, plan] = plan_screen(screen, machine, arguments.plan, arguments.threads);
  if (arguments.json) {
    Json json = to_json(plan);
    json["threads"] = arguments.threads;
    json["screen_samples"] = screen.samples().size();
    json["machine"] = to_json(machine);
    json["sizes"] = to_json(sizes);
    json["costs"] = to_json(costs);
    if (pace) json["training"] = *pace;
    if (ranks) json["step_of_ranks"] = to_json(*ranks);
    fmt::print("{}\n", json.dump(2));
    return;
  }
  print_machine(machine, costs);
  fmt::print("{}: {} samples, batch {}, {} epochs, {} loader threads, a record of u8 masks {}\n",
             screen.path().string(), with_commas(plan.settings.samples), plan.settings.batch,
             with_commas(plan.settings.epochs), arguments.threads,
             format_bytes(uint64_t(sizes.u8.record)));
  print_ladder(plan);
  print_reasons(plan);
  print_training(pace);
  print_ranks(arguments.of_ranks(), ranks);
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "What every rung would cost on this machine, and which to take");
  command->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  PlanSettings& plan = arguments->plan;
  const auto at_least_1 = CLI::Range(uint64_t(1), uint64_t(1) << 40);
  command->add_option("DATA", arguments->screen, "A screen or a recording [the config's]");
  command->add_option("--samples", plan.samples, "Plan for so many instead of the screen's")
      ->check(at_least_1);
  command->add_option("--epochs", plan.epochs, "Epochs over which preparing is spread")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--ranks", plan.ranks, "Processes that train together on this machine")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 10))
      ->capture_default_str();
  command
      ->add_option("--profile", arguments->profiles,
                   "With --ranks: what `lacuna profile --out` wrote of one process with a rank's\n"
                   "share of the batch; also with the whole batch, to compare with")
      ->allow_extra_args(false);
  command->add_option("--link", arguments->link,
                      "With --profile: bytes a second between ranks, as 25GB, instead of measured");
  command->add_option("--batch", plan.batch, "Samples a batch; windows: 256 unless given")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 24))
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "Loader threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--config", arguments->training.config,
                      "Of a screen: also how long this training takes here");
  command->add_option("--set", arguments->training.settings, "With --config: key=value over it")
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out,
                      "Folder in which a store would lie; the screen's own folder unless given");
  command->add_option("--memory", arguments->memory, "Bytes of memory, as 64GB, instead of probed");
  command
      ->add_option("--disk", arguments->disks,
                   "Bytes of free disk, as 1.5TB, instead of probed; of a recording also\n"
                   "FOLDER=1.5TB or FOLDER, as often as there are disks")
      ->allow_extra_args(false);
  RecordingPlanArguments& recording = arguments->recording;
  command
      ->add_option("--transforms", recording.transforms,
                   "Of a recording: what frames go through, as crop,whiten")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--lags", recording.lags, "Of a recording: frames a window")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 16))
      ->capture_default_str();
  command->add_option("--field", recording.field, "Of a recording: whose frames")
      ->capture_default_str();
  command->add_option("--cast", recording.cast, "Of a recording: what the model computes with")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command->add_option("--mix", recording.mix, "Of a recording: proportional or balanced sessions")
      ->check(CLI::IsMember({"proportional", "balanced"}))
      ->capture_default_str();
  command
      ->add_option("--weights", recording.weights,
                   "Of a recording: how much sessions or subjects are drawn, as m1=3,m2_007=1")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--weighed", recording.is_weighed,
                    "Of a recording: windows are drawn by a column (order.column)");
  command
      ->add_option("--demand", recording.demand,
                   "Of a recording: windows a second that the model takes, a rank")
      ->check(CLI::Range(0.001, 1e12))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "One JSON object on stdout, for programs");
  command->callback([arguments, command] { run(*arguments, *command); });
}

}  // namespace lacuna::cli
