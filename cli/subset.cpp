// lacuna subset SCREEN OUT --where ...: some of the samples, as a new screen.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/screen/subset.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string screen, out;
  std::vector<std::string> where;
};

void run(const Options& options) {
  TerminalProgress progress;
  const Screen screen = Screen::open(options.screen, progress);
  const Json source = {{"path", options.screen},
                       {"fingerprint", hex(screen.fingerprint().value())}};
  const Json made_by = {{"command", command_line()},
                        {"settings", {{"where", options.where}}},
                        {"sources", Json::array({source})}};
  const Screen out = write_subset(screen, options.out, options.where, made_by, progress);
  fmt::print("{}: {} of {} samples\n", options.out, with_commas(out.samples().size()),
             with_commas(screen.samples().size()));
}

}  // namespace

void add_subset(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("subset", "Write some samples of a screen as a new one");
  command->add_option("SCREEN", options->screen, "A screen")->required();
  command->add_option("OUT", options->out, "Where to write; must not exist")->required();
  command
      ->add_option("--where", options->where,
                   "A condition; several hold together. A missing value meets none.\n"
                   "removed=2, 2<=removed<4         number of genes removed\n"
                   "any-gene=A,B                    removes at least one of these\n"
                   "only-genes=A,B                  removes no others\n"
                   "no-gene=A,B                     removes none of these\n"
                   "any-gene=@FILE                  names from a file, one a line\n"
                   "sd<=0.05, 0.01<=p<0.05          a column of numbers, or a label\n"
                   "screen=A,B or screen!=A         a column of categories\n"
                   "measured=LABEL                  this label is not missing\n"
                   "split:NAME=train,validation     lies in these parts of a split")
      ->required()
      ->allow_extra_args(false);
  command->footer(
      "The graph stays whole; labels, columns and splits come along.\n"
      "Examples:\n"
      "  lacuna subset demo doubles --where removed=2 --where 'sd<=0.05'\n"
      "  lacuna subset demo held-out --where split:random=test");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
