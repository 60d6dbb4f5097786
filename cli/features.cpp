// lacuna features SCREEN: computes node features of the genes into a screen, or takes some away.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/spectral_features.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string screen, name = "spectral";
  uint32_t spectral = 0;
  bool remove = false;
};

void run(const Options& options) {
  if (options.remove) {
    if (options.spectral > 0) throw UsageError("--remove goes with --name, not with --spectral");
    remove_feature(options.screen, options.name);
    fmt::print("feature '{}' is taken out of {}\n", options.name, options.screen);
    return;
  }
  if (options.spectral == 0)
    throw UsageError("--spectral K is required: how many features of each network");
  const Screen screen = Screen::open(options.screen);
  check_free_feature(screen, options.name);  // before minutes of work
  TerminalProgress progress;
  const Array values = spectral_features(screen.graph(), options.spectral, progress);
  add_feature(options.screen, {options.name, values});
  fmt::print("feature '{}' of {}: {} columns, {} of each of {} networks\n", options.name,
             options.screen, values.shape()[1], options.spectral,
             screen.graph().gene_edges().size());
}

}  // namespace

void add_features(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("features", "Compute features of the genes from the networks");
  command->add_option("SCREEN", options->screen, "The features are saved in it")->required();
  command
      ->add_option("--spectral", options->spectral,
                   "So many of each network: the largest singular vectors of its adjacency,\n"
                   "weighted and normalised by degrees")
      ->check(CLI::Range(1, 4096));
  command->add_option("--name", options->name, "What to call them")->capture_default_str();
  command->add_flag("--remove", options->remove, "Take the features of this name away");
  command->footer(
      "A model reads features where its config says so (`model.features`, and by name\n"
      "`model.feature_names`).\n"
      "Examples:\n"
      "  lacuna features demo --spectral 32\n"
      "  lacuna train CONFIG --set model.features=beside --set model.feature_names=[spectral]\n"
      "  lacuna features demo --name spectral --remove");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
