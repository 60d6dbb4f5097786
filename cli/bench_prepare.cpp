// `lacuna bench prepare`: how fast a store is written, against the same bytes written plainly.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/workshop.h"
#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/masks/prepare_masks.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(In turns: the masks as a store, and as many bytes from memory into one file; both are on the disk
when the clock stops. The store's time has everything in it that `lacuna prepare` does. Both files
are deleted.

Examples:
  lacuna bench prepare demo
  lacuna bench prepare demo --rung disk:bits --samples 5000 --folder /mnt/fast)";

struct Arguments {
  fs::path screen, folder = ".";
  std::string rung = "disk:u8";
  uint64_t samples = 400;
  int rounds = 5, threads = 0;
  bool json = false;
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_plainly(const fs::path& path, std::span<const std::byte> piece, uint64_t bytes) {
  FileWriter file(path);
  while (file.size() < bytes)
    file.write(piece.first(std::min<uint64_t>(piece.size(), bytes - file.size())));
  file.close();
}

void run(const Arguments& arguments) {
  stop_on_signals();
  const Screen screen = Screen::open(arguments.screen);
  const MaskForm form = form_of_disk_rung(arguments.rung);
  const uint64_t samples = std::min(arguments.samples, screen.samples().size());
  const Workshop workshop(arguments.folder, "prepare");
  const fs::path store = workshop.path() / "store", plain = workshop.path() / "plain";
  const MaskEncoder encoder(RemovalRules(screen.graph()), form);
  const RemovedReader removed(screen.samples());
  std::vector<std::byte> piece, value;
  for (uint64_t s = 0; s < samples && piece.size() < 16 << 20; ++s) {
    encode_value(encoder, removed, s, value);
    piece.insert(piece.end(), value.begin(), value.end());
  }
  std::vector<double> store_rates, plain_rates, ratios;
  uint64_t bytes = 0;
  for (int round = 0; round < arguments.rounds; ++round) {
    fs::remove_all(store);
    const double store_seconds = seconds_of([&] {
      const auto made = prepare_masks(screen, form, store,
                                      {.samples = {{0, samples}}, .threads = arguments.threads});
      if (made.is_stopped) throw Stopped();
      bytes = made.bytes;
    });
    const double plain_seconds = seconds_of([&] { write_plainly(plain, piece, bytes); });
    fs::remove(plain);
    store_rates.push_back(double(bytes) / store_seconds);
    plain_rates.push_back(double(bytes) / plain_seconds);
    ratios.push_back(plain_seconds / store_seconds);
    if (!arguments.json)
      fmt::print("round {}: store {}/s, plain {}/s, ratio {:.2f}\n", round + 1,
                 format_bytes(uint64_t(store_rates.back())),
                 format_bytes(uint64_t(plain_rates.back())), ratios.back());
  }
  if (arguments.json) {
    const Json result = {{"rung", arguments.rung},
                         {"samples", samples},
                         {"bytes", bytes},
                         {"store_bytes_per_second", median(store_rates)},
                         {"plain_bytes_per_second", median(plain_rates)},
                         {"ratios", ratios},
                         {"ratio", median(ratios)}};
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{}, {} samples, {}: {}/s, {:.2f} of writing plainly ({}/s), medians of {}\n",
             arguments.rung, with_commas(samples), format_bytes(bytes),
             format_bytes(uint64_t(median(store_rates))), median(ratios),
             format_bytes(uint64_t(median(plain_rates))), arguments.rounds);
}

}  // namespace

void add_bench_prepare(CLI::App& bench) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "prepare", "How fast a store is written, against the same bytes written plainly");
  command->add_option("SCREEN", arguments->screen, "A screen")->required();
  command->add_option("--rung", arguments->rung, "disk:u8, disk:bits, disk:bf16 or disk:positions");
  command->add_option("--samples", arguments->samples, "The first so many, 400 when not given")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 32));
  command->add_option("--folder", arguments->folder, "On which disk to write; here when not given");
  command->add_option("--rounds", arguments->rounds, "5 when not given")
      ->check(CLI::Range(1, 1000));
  command->add_option("--threads", arguments->threads, "That make masks; all cores when not given")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", arguments->json, "One JSON object on stdout, for programs");
  command->footer(kMore);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
