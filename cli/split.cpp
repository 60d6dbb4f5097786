// lacuna split SCREEN: draws a split and saves it in the screen, or takes one away.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/screen/split.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string screen, name, by, file, repeats = "together";
  std::vector<double> fractions = {0.8, 0.1, 0.1};
  DrawOptions draw;
  bool remove = false;
};

Split make_split(const Screen& screen, const Options& options) {
  if (options.by.empty())
    throw UsageError("--by is required: how to split; see `lacuna split --help`");
  if (options.by == "file") {
    if (options.file.empty()) throw UsageError("--by file needs --file with the lists");
    return split_from_json(screen, options.name, options.file);
  }
  if (!options.file.empty())
    throw UsageError("--file goes with --by file, not with --by {}", options.by);
  DrawOptions draw = options.draw;
  draw.by = split_by_from_name(options.by);
  draw.repeats_together = options.repeats == "together";
  for (size_t p = 0; p < 3; ++p) draw.fractions[p] = options.fractions.at(p);
  TerminalProgress progress;
  return draw_split(screen, options.name, draw, progress);
}

bool is_for_removal(const std::string& option) {
  return option == "SCREEN" || option == "--name" || option == "--remove";
}

// Says how it was made, so that a split removed by mistake can be made again.
void remove(const Options& options) {
  const Split split = remove_split(options.screen, options.name);
  fmt::print("split '{}' is taken out of {}\n", split.name, options.screen);
  const Json& how = split.how;
  if (how.is_object() && how.contains("counts"))
    fmt::print("it had: {}\n", how.at("counts").dump());
  if (how.is_object() && how.contains("command"))
    fmt::print("it was made by: {}\n", how.at("command").get<std::string>());
  else
    fmt::print("it was made so: {}\n", how.dump());
}

void run(const Options& options) {
  const Screen screen = Screen::open(options.screen);
  Split split = make_split(screen, options);
  split.how["command"] = command_line();
  lacuna::add_split(options.screen, split);
  std::vector<std::vector<std::string>> rows = {{"part", "samples", "share"}};
  const double all = double(std::max<uint64_t>(1, screen.samples().size()));
  for (const auto& [part, count] : split.how.at("counts").items())
    rows.push_back({part, with_commas(count.get<uint64_t>()),
                    fmt::format("{:.2f}%", 100 * count.get<double>() / all)});
  fmt::print("split '{}' of {}, by {}\n{}", split.name, options.screen, options.by,
             format_table(rows, {1, 2}));
}

}  // namespace

void add_split(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("split", "Draw a split into train, validation and test, and save it");
  command->add_option("SCREEN", options->screen, "A screen; the split is saved in it")->required();
  command->add_option("--name", options->name, "What to call it")->required();
  command
      ->add_option("--by", options->by,
                   "random: at random\n"
                   "stratified: at random within the categories or bins of --column\n"
                   "gene: every test sample removes a gene that training never removes\n"
                   "pair: the recurring pair of genes of a test sample never occurs in training;\n"
                   "  with --column, its categories are the pairs\n"
                   "file: from --file")
      ->check(CLI::IsMember({"random", "stratified", "gene", "pair", "file"}));
  command
      ->add_option("--fractions", options->fractions,
                   "Of samples, for train, validation and test; the rest is unused")
      ->delimiter(',')
      ->expected(3)
      ->capture_default_str();
  command->add_option("--seed", options->draw.seed, "Same seed, same split")->capture_default_str();
  command->add_option("--column", options->draw.column, "A column or a label");
  command->add_option("--bins", options->draw.bins, "Bins of equal size for a column of numbers")
      ->capture_default_str();
  command
      ->add_option(
          "--repeats", options->repeats,
          "together: samples that remove the same genes share a part; apart: they need not")
      ->check(CLI::IsMember({"together", "apart"}))
      ->capture_default_str();
  command->add_option("--file", options->file,
                      "JSON lists of sample numbers: {\"train\": [...], \"val\": [...], ...}");
  command->add_flag(
      "--remove", options->remove,
      "Take the split of this name away, and say how it was made. Runs that were trained\n"
      "on it cannot be evaluated until it is there again");
  command->footer(
      "A split never replaces another: take that away first, or choose another name.\n"
      "Examples:\n"
      "  lacuna split demo --name random --by random --seed 1\n"
      "  lacuna split demo --name random --remove\n"
      "  lacuna split demo --name unseen-genes --by gene --fractions 0.8,0.1,0.1 --seed 1\n"
      "  lacuna split demo --name even --by stratified --column label:gene_interaction\n"
      "  lacuna split demo --name published --by file --file split.json");
  command->callback([options, command] {
    if (!options->remove) return run(*options);
    for (const CLI::Option* option : command->get_options())
      if (option->count() > 0 && !is_for_removal(option->get_name()))
        throw UsageError("--remove goes with --name alone, not with {}", option->get_name());
    remove(*options);
  });
}

}  // namespace lacuna::cli
