// lacuna subset SCREEN OUT --where ...: some of the samples, as a new screen.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/screen/subset.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string screen, out;
  SubsetOptions subset;
};

void run(const Options& options) {
  TerminalProgress progress;
  const Screen screen = Screen::open(options.screen, progress);
  const Json source = {{"path", options.screen},
                       {"fingerprint", hex(screen.fingerprint().value())}};
  Json settings = {{"where", options.subset.where}};
  if (options.subset.random)
    settings.update({{"random", *options.subset.random}, {"seed", options.subset.seed}});
  Json made_by = {
      {"command", command_line()}, {"settings", settings}, {"sources", Json::array({source})}};
  // What the import left out is not here either: its report comes along.
  const Json before = screen.directory().manifest().value("made_by", Json::object());
  if (before.is_object() && before.contains("report")) made_by["report"] = before["report"];
  const Screen out = write_subset(screen, options.out, options.subset, made_by, progress);
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
      ->add_option("--where", options->subset.where,
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
      ->allow_extra_args(false);
  CLI::Option* random =
      command
          ->add_option("--random", options->subset.random,
                       "This many at random, of those that meet the conditions; in their order")
          ->check(CLI::Range(uint64_t(1), uint64_t(1) << 40));
  command->add_option("--seed", options->subset.seed, "Same seed, same samples")
      ->needs(random)
      ->capture_default_str();
  command->footer(
      "The graph stays whole; labels, columns and splits come along.\n"
      "Examples:\n"
      "  lacuna subset demo doubles --where removed=2 --where 'sd<=0.05'\n"
      "  lacuna subset demo few --random 1000 --seed 1\n"
      "  lacuna subset demo held-out --where split:random=test");
  command->callback([options] {
    if (options->subset.where.empty() && !options->subset.random)
      throw UsageError("which samples? --where CONDITION, --random N, or both");
    run(*options);
  });
}

}  // namespace lacuna::cli
