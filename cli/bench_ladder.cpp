// `lacuna bench ladder`: every rung on this machine, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/bench_recording.h"
#include "cli/data_kind.h"
#include "cli/peers.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch_commands.h"
#include "cli/workshop.h"
#include "lacuna/core/error.h"
#include "lacuna/plan/measure_ladder.h"
#include "lacuna/recording/recording.h"
#include "lacuna/report/sections.h"
#include "lacuna/run/ladder_file.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(A batch is there when its masks lie in memory, ready to be read; `read` counts one thread reading every
byte of them too. Masks of a slice are made in a folder, one store at a time, and removed at the end:
at yeast size 512 samples are 1.3 GB as disk:u8, 2.6 GB as disk:bf16. `planned` is what `lacuna plan`
says on this machine, `ratio` what was measured over it. Memory is what came on top, without mapped
files. `exact`: batches were compared with masks taken from the edges one by one.

--train takes training steps on every rung, from the same weights over the same batches, loading
included: HeteroGin of width 64 with three layers, or what --config says. Rounds go up the ladder and
down again; the median of all steps counts. On the CPU a step of that model at yeast size takes 19 GB
of memory at batch 28, 3 GB at batch 4. `differs`: the largest difference between what it predicts
then and what the first rung does.

--peers does the same work in Python (bench/ladder_peers.py says how): torch and PyG, LMDB and pickle.
It needs a Python with torch, torch_geometric, lmdb and numpy: --python, else LACUNA_PYTHON, else python3.

Of a recording: windows through the loader on every rung, warm, beside two bare loops over the same
windows (memcpy; gather and cast); --peers adds torch's DataLoader (bench/recording_peers.py). --train
takes steps of a small core_readout, or of what --config says; `over ready` is what a step takes more
than one on a batch that lies ready where the model computes.

Examples:
  lacuna bench ladder demo
  lacuna bench ladder movies --frames 200000 --peers --python .venv/bin/python
  lacuna bench ladder movies --train --config configs/recording.yaml --batch 64
  lacuna bench ladder demo --rungs disk:u8,worker,kernel --samples 2000 --json run/ladder.json
  lacuna bench ladder demo --peers --python .venv/bin/python
  lacuna bench ladder demo --train --set model.width=32)";

struct Arguments {
  fs::path screen, out = ".", json, svg;
  std::vector<std::string> rungs;
  LadderSettings ladder;
  uint64_t samples = 512;
  bool peers = false;
  double peer_seconds = 4;
  std::string python;
  bool train = false;
  LadderTraining training;
  RecordingLadderArguments recording;
};

std::string times(double ratio) {
  if (ratio >= 10) return with_commas(uint64_t(std::round(ratio))) + "x";
  return fmt::format("{:.{}f}x", ratio, ratio < 2 ? 2 : 1);
}

// ---- the table
using Row = std::vector<std::string>;

// What was not measured is an empty cell.
Row row_of(const LadderRow& one) {
  const auto number = [](double value, auto format) {
    return std::isnan(value) ? std::string() : std::string(format(value));
  };
  const auto bytes = [](double value) { return format_bytes(uint64_t(std::max(value, 0.0))); };
  const auto ratio = [](double value) { return fmt::format("{:.2f}", value); };
  return {one.name,
          number(one.samples_per_s, format_rate),
          number(one.ms_per_batch, format_digits),
          number(one.planned_ms_per_batch, format_digits),
          number(one.planned_ratio, ratio),
          number(one.read_ms_per_batch, format_digits),
          number(one.stored_bytes_per_sample, bytes),
          number(one.moved_bytes_per_sample, bytes),
          number(one.host_peak_bytes, bytes),
          one.is_exact ? *one.is_exact ? "yes" : "NO" : one.left_out,
          number(one.train_steps_per_s, format_digits),
          number(one.device_peak_bytes, bytes),
          number(one.train_difference, [](double value) { return fmt::format("{:.1g}", value); })};
}

void print_table(const Ladder& ladder) {
  std::vector<Row> rows = {{"rung", "samples/s", "ms/batch", "planned", "ratio", "read",
                            "stored/sample", "moved/sample", "memory", "exact", "steps/s", "on GPU",
                            "differs"}};
  for (const LadderRow& rung : ladder.rungs) rows.push_back(row_of(rung));
  for (const LadderRow& peer : ladder.peers) rows.push_back(row_of(peer));
  // Training stands last, and only where it was measured.
  const auto is_empty = [&](size_t column) {
    return std::all_of(rows.begin() + 1, rows.end(),
                       [&](const Row& row) { return row[column].empty(); });
  };
  for (size_t column = rows[0].size() - 1; column > 9; --column)
    if (is_empty(column))
      for (Row& row : rows) row.erase(row.begin() + long(column));
  fmt::print("{}", format_table(rows, {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12}));
}

// The fastest peer that goes this way, by this time.
const LadderRow* best_peer(const Ladder& ladder, const std::string& way, double LadderRow::*time) {
  const LadderRow* best = nullptr;
  for (const LadderRow& peer : ladder.peers)
    if (peer.way == way && !std::isnan(peer.*time) && (!best || peer.*time < best->*time))
      best = &peer;
  return best;
}

void print_comparison(const Ladder& ladder, const std::string& rung_name, const std::string& way) {
  const auto rung = std::ranges::find(ladder.rungs, rung_name, &LadderRow::name);
  const LadderRow* peer = best_peer(ladder, way, &LadderRow::ms_per_batch);
  const LadderRow* reader = best_peer(ladder, way, &LadderRow::read_ms_per_batch);
  if (rung == ladder.rungs.end() || !peer || !reader) return;
  fmt::print("{} is {} as fast as {}, and {} when the masks are read too\n", rung_name,
             times(peer->ms_per_batch / rung->ms_per_batch), peer->name,
             times(reader->read_ms_per_batch / rung->read_ms_per_batch));
}

void print_fastest_training(const LadderMeasurement& ladder) {
  if (ladder.rungs.size() < 2) return;
  auto rungs = ladder.rungs;
  std::ranges::sort(rungs, [](const RungMeasurement& a, const RungMeasurement& b) {
    return *a.steps_per_second > *b.steps_per_second;
  });
  fmt::print("{} trains fastest, {} as fast as {}, the next\n", name(rungs[0].rung),
             times(*rungs[0].steps_per_second / *rungs[1].steps_per_second), name(rungs[1].rung));
}

// ---- the work
std::vector<LadderRow> measure_peers(const Arguments& arguments, const fs::path& slice,
                                     const fs::path& folder) {
  fs::create_directory(folder);
  std::vector<LadderRow> peers;
  for (const Json& peer : run_peers({.screen = slice,
                          .folder = folder,
                          .batch = arguments.ladder.batch,
                          .seconds = arguments.peer_seconds,
                          .python = arguments.python},
                                    [](const Json& peer) {
                                      fmt::print(stderr, "measured: {}\n",
                                                 peer.at("name").get<std::string>());
                                    }))
    peers.push_back(peer_from_json(peer));
  return peers;
}

// The options that both kinds of data have, with what recordings have of their own.
void run_recording(const Arguments& arguments, const CLI::App& command) {
  RecordingLadderArguments recording = arguments.recording;
  for (const char* option : {"--samples", "--svg", "--peer-seconds"})
    if (command.count(option) > 0) throw UsageError("{} is for screens", option);
  if (arguments.train) need_torch("--train");
  recording.recording = arguments.screen;
  recording.out = arguments.out;
  recording.json = arguments.json;
  recording.rungs = arguments.rungs;
  if (command.count("--batch") > 0) recording.batch = arguments.ladder.batch;
  recording.threads = arguments.ladder.threads;
  recording.seconds = arguments.ladder.seconds;
  recording.peers = arguments.peers;
  recording.python = arguments.python;
  recording.train = arguments.train;
  recording.training = arguments.training;
  bench_recording_ladder(recording);
}

void run(Arguments arguments, const CLI::App& command) {
  if (is_recording_at(arguments.screen)) return run_recording(arguments, command);
  for (const char* option : {"--frames", "--lags", "--field"})
    if (command.count(option) > 0) throw UsageError("{} is for recordings", option);
  if (arguments.train) need_torch("--train");
  if (!arguments.rungs.empty()) arguments.ladder.rungs.clear();
  for (const std::string& rung : arguments.rungs)
    arguments.ladder.rungs.push_back(rung_from_name(rung, kScreenRungs));
  check_folder_of(arguments.json, "--json");
  check_folder_of(arguments.svg, "--svg");
  const double load = load_average();
  stop_on_signals();
  const Screen screen = Screen::open(arguments.screen);
  const Workshop workshop(arguments.out, "ladder");
  const Screen slice = write_slice(screen, workshop.path() / "slice", arguments.samples);
  arguments.ladder.folder = workshop.path();

  // What a config or Python lacks shows at once.
  TrainLadder train;
  if (arguments.train) train = ladder_training(slice, arguments.ladder, arguments.training);
  std::vector<LadderRow> peers;
  if (arguments.peers) peers = measure_peers(arguments, slice.path(), workshop.path() / "peers");
  TerminalProgress progress;
  const auto tell = [](const RungMeasurement& rung) {
    fmt::print(stderr, "measured: {}\n", name(rung.rung));
  };
  LadderMeasurement measured = measure_ladder(slice, arguments.ladder, tell, progress);
  const std::string trained = train ? train(measured, progress) : "";
  Ladder ladder = ladder_of(measured);
  ladder.machine = describe(measured.machine);
  ladder.load = load;
  ladder.date = today();
  ladder.screen = fs::absolute(arguments.screen).string();
  ladder.fingerprint = screen.fingerprint();
  ladder.peers = std::move(peers);
  ladder.training = trained;

  fmt::print("{}; load {:.2f} when it began; {}\n", ladder.machine, load, ladder.date);
  fmt::print(
      "{}: the first {} of {} samples, batch {}, shuffled, {} loader threads; stores of up to "
      "{}\n\n",
      arguments.screen.string(), with_commas(measured.samples),
      with_commas(screen.samples().size()), measured.batch, measured.threads,
      format_bytes(measured.largest_store));
  print_table(ladder);
  fmt::print("\n");
  if (arguments.train) {
    fmt::print("trained: {}\n", trained);
    print_fastest_training(measured);
  }
  for (const char* way : {"lmdb masks", "lmdb positions"}) print_comparison(ladder, "disk:u8", way);
  for (const char* way : {"torch", "PyG"}) print_comparison(ladder, "worker", way);
  if (!arguments.json.empty()) write_ladder(arguments.json, ladder);
  if (!arguments.svg.empty()) write_text_atomically(arguments.svg, report::ladder_picture(ladder));
}

}  // namespace

void add_bench_ladder(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("ladder", "Every rung, side by side");
  command->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  LadderSettings& ladder = arguments->ladder;
  const auto at_least_1 = CLI::Range(uint64_t(1), uint64_t(1) << 32);
  command->add_option("DATA", arguments->screen, "A screen or a recording")->required();
  command->add_option("--rungs", arguments->rungs, "Only these, as disk:u8,worker")
      ->delimiter(',')
      ->allow_extra_args(false);
  RecordingLadderArguments& recording = arguments->recording;
  command->add_option("--frames", recording.frames, "Of a recording: the first, about so many")
      ->check(at_least_1)
      ->capture_default_str();
  command
      ->add_option("--lags", recording.lags,
                   "Of a recording: frames a window; else --config's, or 33")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 16));
  command->add_option("--field", recording.field,
                      "Of a recording: whose frames; else --config's, or stim");
  command->add_option("--samples", arguments->samples, "The first so many")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--batch", ladder.batch, "Samples a batch; windows: 256 unless given")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--threads", ladder.threads, "Loader threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--seconds", ladder.seconds, "For a rung, about")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "Folder for the stores; here when not given");
  LadderTraining& training = arguments->training;
  CLI::Option* train = command->add_flag("--train", arguments->train, "Training steps, too");
  command->add_option("--config", training.config, "What to train; its data is not looked at")
      ->needs(train);
  command->add_option("--set", training.settings, "key=value over the config")
      ->allow_extra_args(false)
      ->needs(train);
  command->add_option("--rounds", training.rounds, "Times to train on every rung")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--steps", training.steps, "Training steps to measure on a rung in a round")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_flag("--peers", arguments->peers, "The same work in Python, too");
  command->add_option("--peer-seconds", arguments->peer_seconds, "For a peer, about")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command->add_option("--python", arguments->python, "For the peers");
  command->add_option("--json", arguments->json,
                      "File for all of it; `lacuna report` shows that of a screen");
  command->add_option("--svg", arguments->svg, "File for a picture of it");
  command->callback([arguments, command] { run(*arguments, *command); });
}

}  // namespace lacuna::cli
