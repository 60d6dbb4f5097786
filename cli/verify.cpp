// lacuna verify STORE --screen SCREEN: looks for damage in a store.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <random>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/masks/verify_masks.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string store, screen;
  VerifyOptions verify;
};

void run(Options options) {
  TerminalProgress progress;
  const Screen screen = Screen::open(options.screen, progress);
  options.verify.seed = std::random_device()();
  const VerifyResult result = verify_masks(screen, options.store, options.verify, progress);
  const MaskStoreContents& contents = result.contents;
  fmt::print("{}: {}, samples {} to {}\n", options.store, disk_rung(contents.form),
             with_commas(contents.begin), with_commas(contents.end - 1));
  if (!result.is_manifest_checked)
    fmt::print("manifest: not checked (written before manifests had checksums)\n");
  for (const auto& fault : result.faults) fmt::print("  {}\n", fault);
  if (result.fault_count > result.faults.size())
    fmt::print("  and {} more\n", with_commas(result.fault_count - result.faults.size()));
  if (result.fault_count > 0) {
    std::fflush(stdout);
    throw Error("{}: {} found, the first: {}; restore it or run `{} --again`", options.store,
                result.fault_count == 1 ? "one fault" : with_commas(result.fault_count) + " faults",
                result.faults[0], prepare_command(screen, contents, options.store));
  }
  fmt::print("{} samples are those of {}, and {} pages of LMDB as written: no fault\n",
             with_commas(result.samples), options.screen, with_commas(result.pages));
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Compare a store with what it was made from");
  command->add_option("STORE", options->store, "What lacuna prepare made")->required();
  command->add_option("--screen", options->screen, "The screen it was made from")->required();
  auto* const all = command->add_flag("--all", options->verify.all,
                                      "Every sample; else 3,000 at random and LMDB's own pages");
  command->add_option("--sample", options->verify.sample, "Only this sample")->excludes(all);
  command->footer(
      "Exits with 1 when something is wrong, and says what and where.\n"
      "Examples:\n"
      "  lacuna verify masks --screen demo\n"
      "  lacuna verify masks --screen demo --all");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
