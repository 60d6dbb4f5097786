// `lacuna bench loader`: epochs of shuffled batches through the loader, timed one by one.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/load/loader.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/screen_batch.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(Every sample is visited once an epoch, in another order each time. The first epoch also starts the
threads and brings the sample arrays from the disk. Batches are made ahead across the ends of epochs:
where an epoch has fewer than --prefetch, only all epochs together say how fast it is. Memory is what
the process holds for itself; the mapped sample arrays belong to the system's file cache, which gives
them back when memory is short.

Examples:
  lacuna bench loader demo
  lacuna bench loader demo --batch 256 --threads 4 --split random:train --columns truth_gene
  lacuna bench loader demo --json)";

struct Arguments {
  fs::path screen;
  LoaderSettings loader = {.order = {.global_batch = 28, .seed = 1}};
  uint64_t epochs = 10;
  std::string split;  // NAME:PART
  std::vector<std::string> columns;
  bool json = false;
};

struct Memory {
  uint64_t own = 0;     // not mapped from a file, bytes
  uint64_t mapped = 0;  // pages of mapped files
  uint64_t peak = 0;    // of both together, so far
};

Memory memory_of_this_process() {
  const uint64_t own = own_memory(), all = std::max(used_memory(), own);
  return {own, all - own, peak_memory()};
}

struct Epoch {
  double seconds = 0;
  uint64_t samples = 0, batches = 0, bytes = 0;
  uint64_t sum = 0;  // of sample numbers and removed genes: the same in every epoch
  uint64_t own_memory = 0;
};

using Clock = std::chrono::steady_clock;

// From `start` on, which becomes the time of its end: what was made ahead counts for some epoch.
Epoch run_epoch(Loader<ScreenSource>& loader, Progress& progress, uint64_t samples_before,
                Clock::time_point& start) {
  Epoch epoch;
  while (const auto batch = loader.next()) {
    epoch.samples += batch->size();
    epoch.bytes += batch->bytes();
    epoch.sum = std::accumulate(batch->samples().begin(), batch->samples().end(), epoch.sum);
    epoch.sum = std::accumulate(batch->removed().begin(), batch->removed().end(), epoch.sum);
    if (++epoch.batches % 4096 == 0) progress.advance(samples_before + epoch.samples);
  }
  const Clock::time_point end = Clock::now();
  epoch.seconds = std::chrono::duration<double>(end - start).count();
  start = end;
  epoch.own_memory = memory_of_this_process().own;
  return epoch;
}

std::optional<std::vector<uint32_t>> choose_samples(const Screen& screen,
                                                    const std::string& split) {
  if (split.empty()) return {};
  const size_t colon = split.rfind(':');
  if (colon == std::string::npos) {
    throw UsageError("--split {}: give NAME:PART, for example random:train", split);
  }
  return samples_in(screen.split(split.substr(0, colon)), part_from_name(split.substr(colon + 1)));
}

// start: when the loader's threads began.
std::vector<Epoch> run_epochs(Loader<ScreenSource>& loader, uint64_t count,
                              Clock::time_point start) {
  TerminalProgress progress;
  const uint64_t samples = loader.source().size();
  progress.begin("loading", count * samples, "samples");
  std::vector<Epoch> epochs;
  for (uint64_t i = 0; i < count; ++i) {
    epochs.push_back(run_epoch(loader, progress, i * samples, start));
    LACUNA_ASSERT(epochs[i].samples == samples && epochs[i].sum == epochs[0].sum);
  }
  progress.end();
  return epochs;
}

Epoch total(std::span<const Epoch> epochs) {
  Epoch all;
  for (const Epoch& epoch : epochs) {
    all.seconds += epoch.seconds;
    all.samples += epoch.samples;
    all.batches += epoch.batches;
    all.bytes += epoch.bytes;
  }
  return all;
}

void print_table(const Arguments& arguments, uint64_t samples, std::span<const Epoch> epochs) {
  fmt::print("{}{}: {} samples, batch {}, shuffled, {} threads, {} bytes a batch\n",
             arguments.screen.string(), arguments.split.empty() ? "" : ", " + arguments.split,
             with_commas(samples), arguments.loader.order.global_batch, arguments.loader.threads,
             with_commas(epochs[0].bytes / epochs[0].batches));
  std::vector<std::vector<std::string>> rows = {{"", "samples/s", "ms/batch", "own memory"}};
  const auto add_row = [&](const std::string& name, const Epoch& epoch, uint64_t memory) {
    rows.push_back({name, format_rate(double(epoch.samples) / epoch.seconds),
                    fmt::format("{:.5f}", 1000 * epoch.seconds / double(epoch.batches)),
                    format_bytes(memory)});
  };
  add_row("first epoch", epochs[0], epochs[0].own_memory);
  if (epochs.size() > 1) {
    add_row(fmt::format("{} more", epochs.size() - 1), total(epochs.subspan(1)),
            epochs.back().own_memory);
  }
  const Memory memory = memory_of_this_process();
  fmt::print("{}mapped files {}, peak of both {}\n", format_table(rows, {1, 2, 3}),
             format_bytes(memory.mapped), format_bytes(memory.peak));
}

void print_json(const Arguments& arguments, uint64_t samples, std::span<const Epoch> epochs) {
  const Epoch all = total(epochs);
  const Memory memory = memory_of_this_process();
  Json json = {{"samples", samples},
               {"batch", arguments.loader.order.global_batch},
               {"threads", arguments.loader.threads},
               {"prefetch", arguments.loader.prefetch},
               {"epochs", Json::array()},
               {"samples_per_second", double(all.samples) / all.seconds},
               {"ms_per_batch", 1000 * all.seconds / double(all.batches)},
               {"bytes_per_batch", double(all.bytes) / double(all.batches)},
               {"own_memory_bytes", memory.own},
               {"mapped_bytes", memory.mapped},
               {"peak_memory_bytes", memory.peak}};
  for (const Epoch& epoch : epochs) {
    json["epochs"].push_back({{"seconds", epoch.seconds}, {"own_memory_bytes", epoch.own_memory}});
  }
  fmt::print("{}\n", json.dump(2));
}

// What the batches that are made ahead take. The ring of them is made as asked, whatever an epoch
// has.
void check_memory(const Arguments& arguments, const Samples& samples, uint64_t count) {
  constexpr double kBatch = 256;  // of a batch's own fields
  const LoaderSettings& settings = arguments.loader;
  const double batch = double(std::min(settings.order.global_batch, count));
  const double sample = 16 + 4.0 * double(samples.label_names.size()) +
                        8.0 * double(arguments.columns.size()) +
                        4.0 * double(samples.removed.size()) / double(samples.size());
  const double ahead = settings.threads == 0 ? 1 : double(settings.prefetch);
  const double needed = ahead * (kBatch + batch * sample);
  const uint64_t available = available_memory();
  if (needed > double(available))
    throw Error(
        "{} batches ahead (--prefetch) of {} samples need {} of memory, and {} are free; take a "
        "smaller --prefetch or --batch",
        with_commas(uint64_t(ahead)), with_commas(uint64_t(batch)),
        format_bytes(uint64_t(std::min(needed, 1e18))), format_bytes(available));
}

void run(const Arguments& arguments) {
  const Screen screen = Screen::open(arguments.screen);
  ScreenSource source(
      screen.samples(), uint32_t(screen.graph().genes().size()),
      {.selection = choose_samples(screen, arguments.split), .columns = arguments.columns});
  const uint64_t samples = source.size();
  check_memory(arguments, screen.samples(), samples);
  const Clock::time_point start = Clock::now();
  Loader loader(std::move(source), arguments.loader);
  const std::vector<Epoch> epochs = run_epochs(loader, arguments.epochs, start);
  arguments.json ? print_json(arguments, samples, epochs) : print_table(arguments, samples, epochs);
}

}  // namespace

void add_bench_loader(CLI::App& bench) {
  CLI::App* loader = bench.add_subcommand("loader", "Shuffled batches of a screen");
  loader->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  LoaderSettings& settings = arguments->loader;
  loader->add_option("SCREEN", arguments->screen, "A screen")->required();
  loader->add_option("--batch", settings.order.global_batch, "Samples a batch")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 32))
      ->capture_default_str();
  loader->add_option("--threads", settings.threads, "Loader threads; 0: none but the caller's")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  loader->add_option("--prefetch", settings.prefetch, "Batches made ahead, at most")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 32))
      ->capture_default_str();
  loader->add_option("--epochs", arguments->epochs, "How often to visit every sample")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 32))
      ->capture_default_str();
  loader->add_option("--split", arguments->split, "Only a part of a split, as NAME:PART");
  loader->add_option("--columns", arguments->columns, "Columns to load as well")
      ->delimiter(',')
      ->allow_extra_args(false);
  loader->add_flag("--json", arguments->json, "Print JSON");
  loader->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
