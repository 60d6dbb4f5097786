// lacuna clean FOLDER [--remove STORE]: stores that nothing refers to.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/run/clean/clean_stores.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::vector<fs::path> folders, remove;
};

void list(const std::vector<FoundStore>& found) {
  std::vector<std::vector<std::string>> rows = {{"store", "what", "bytes", ""}};
  uint64_t bytes = 0, count = 0;
  for (const FoundStore& store : found) {
    if (!store.referred_by.empty()) continue;
    rows.push_back({store.path.string(), store.what, format_bytes(store.bytes),
                    store.is_finished ? "" : "unfinished"});
    bytes += store.bytes;
    ++count;
  }
  if (count > 0) fmt::print("{}", format_table(rows, {2}));
  fmt::print("{} stores, {} of them referred to by no run or config here: {}\n", found.size(),
             count, format_bytes(bytes));
  if (count > 0) fmt::print("`lacuna clean .. --remove STORE` removes one; nothing was removed\n");
}

void run(const Options& options) {
  const std::vector<FoundStore> found = find_stores(options.folders);
  if (options.remove.empty()) return list(found);
  for (const fs::path& store : options.remove) {
    uint64_t bytes = 0;
    for (const FoundStore& one : found)
      if (fs::weakly_canonical(one.path) == fs::weakly_canonical(store)) bytes = one.bytes;
    remove_store(store, found);
    fmt::print("removed {}{}\n", store.string(),
               bytes > 0 ? fmt::format(", {}", format_bytes(bytes)) : "");
  }
}

}  // namespace

void add_clean(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  options->folders = {"."};
  CLI::App* command =
      app.add_subcommand("clean", "List stores that nothing refers to; remove those named");
  command->add_option("FOLDER", options->folders,
                      "Where stores, runs and configs lie; here when not given");
  command->add_option("--remove", options->remove, "A store to remove; may be given again")
      ->allow_extra_args(false);
  command->footer(
      "A store is referred to when a .yaml file under the folders (a run's config.yaml, a config "
      "of\n"
      "yours) has a key `store` that leads to it. So are recordings that transforms have written\n"
      "(by `recording`, `derived`, or the transforms that they were written for) and the files of\n"
      "RECORDING/statistics. Only what --remove names is removed.\n"
      "Examples:\n"
      "  lacuna clean /data\n"
      "  lacuna clean /data --remove /data/frames-bf16 --remove /data/rec/statistics");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
