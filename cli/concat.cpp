// lacuna concat OUT SCREEN SCREEN...: screens over the same genes, joined.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/screen/concat.h"
#include "lacuna/screen/splits/split_notes.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string out, source;
  std::vector<std::string> screens;
};

void run(const Options& options) {
  TerminalProgress progress;
  std::vector<Screen> screens;
  Json sources = Json::array();
  for (const auto& path : options.screens) {
    screens.push_back(Screen::open(path, progress));
    sources.push_back({{"path", path}, {"fingerprint", hex(screens.back().fingerprint().value())}});
  }
  JoinedSamples joined = join_samples(screens, options.source, progress);
  const Json made_by = {{"command", command_line()},
                        {"settings", {{"source", options.source}}},
                        {"sources", sources}};
  const Screen out = write_screen(
      options.out, {screens.front().graph(), joined.samples, joined.splits, made_by, joined.noise},
      progress);
  fmt::print("{}: {} samples of {} screens\n", options.out, with_commas(out.samples().size()),
             screens.size());
  for (const auto& split : joined.dropped_splits)
    fmt::print("split '{}' was dropped: not every screen has it\n", split);
  for (const auto& split : out.splits()) {
    const uint32_t genes = out.graph().genes().size();
    const auto shared = count_shared_sets(out.samples(), genes, split).words(split.name);
    if (!shared.empty()) print_note(shared);
  }
}

}  // namespace

void add_concat(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("concat", "Join screens over the same genes and edges");
  command->add_option("OUT", options->out, "Where to write; must not exist")->required();
  command->add_option("SCREENS", options->screens, "Two screens or more")
      ->required()
      ->expected(2, -1);  // or more
  command->add_option("--source", options->source,
                      "Add a column of this name that says which screen a sample came from");
  command->footer(
      "Labels and columns are united, categories merged by name; what a screen lacks is missing\n"
      "there. Splits that all screens have are kept; where one then has the same set of genes in\n"
      "training and in test, this is said. Samples that occur twice are both kept.\n"
      "Example:\n"
      "  lacuna concat both first second --source screen");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
