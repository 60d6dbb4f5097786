// lacuna split SCREEN | RECORDING: draws a split and saves it there, or takes one away.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/recording/trial_split.h"
#include "lacuna/screen/splits/split.h"
#include "lacuna/screen/splits/split_notes.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string screen, name, by, file, repeats = "together", repeated;
  std::vector<double> fractions = {0.8, 0.1, 0.1};
  DrawOptions draw;
  bool remove = false, each = false;
  uint64_t folds = 0;  // 0: one split
};

// Whether the screen has this split already: of a call that was cut short. Throws Error for another
// one of its name.
bool is_there(const Screen& screen, const Split& split) {
  for (const Split& there : screen.splits()) {
    if (there.name != split.name) continue;
    if (std::ranges::equal(there.parts.bytes(), split.parts.bytes())) return true;
    throw Error(
        "{}: has another split '{}' already; choose another name, or take it away with `lacuna "
        "split {} --name {} --remove`",
        screen.path().string(), split.name, screen.path().string(), split.name);
  }
  return false;
}

// --folds: several splits, in which every gene is held out once.
void run_folds(const Options& options) {
  if (options.by != "gene") throw UsageError("--folds goes with --by gene");
  const Screen screen = Screen::open(options.screen);
  DrawOptions draw = options.draw;
  draw.by = SplitBy::gene;
  for (size_t p = 0; p < 3; ++p) draw.fractions[p] = options.fractions.at(p);
  std::vector<Split> splits = draw_gene_folds(screen, options.name, options.folds, draw);
  std::vector<bool> have;  // asked of all before any is written
  for (const Split& split : splits) have.push_back(is_there(screen, split));
  std::vector<std::vector<std::string>> rows = {
      {"split", "genes held out", "train", "validation", "test"}};
  for (size_t f = 0; f < splits.size(); ++f) {
    Split& split = splits[f];
    split.how["command"] = command_line();
    if (!have[f]) lacuna::add_split(options.screen, split);
    rows.push_back({split.name, with_commas(split.how.at("test_genes").get<uint64_t>())});
    for (const char* part : {"train", "validation", "test"})
      rows.back().push_back(with_commas(split.how.at("counts").at(part).get<uint64_t>()));
  }
  fmt::print("{} folds '{}' of {}, by gene: each gene is held out once\n{}", options.folds,
             options.name, options.screen, format_table(rows, {1, 2, 3, 4}));
}

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

bool is_recording(const Options& options) {
  return Directory::format_of(options.screen) == Recording::kFormat;
}

// Says how it was made, so that a split removed by mistake can be made again.
void remove(const Options& options) {
  const Json how = is_recording(options) ? remove_recording_split(options.screen, options.name).how
                                         : remove_split(options.screen, options.name).how;
  fmt::print("split '{}' is taken out of {}\n", options.name, options.screen);
  if (how.is_object() && how.contains("counts"))
    fmt::print("it had: {}\n", how.at("counts").dump());
  if (how.is_object() && how.contains("command"))
    fmt::print("it was made by: {}\n", how.at("command").get<std::string>());
  else
    fmt::print("it was made so: {}\n", how.dump());
}

RecordingSplit make_recording_split(const Recording& recording, const Options& options) {
  if (options.by == "file") {
    if (options.file.empty()) throw UsageError("--by file needs --file with the lists");
    return recording_split_from_json(recording, options.name, options.file);
  }
  if (!options.by.empty() && options.by != "trial")
    throw UsageError("a recording is split by trial or by file, not by {}", options.by);
  if (!options.file.empty()) throw UsageError("--file goes with --by file");
  if (!options.draw.column.empty() || !options.draw.hold_out.empty() || options.each)
    throw UsageError("--column, --hold-out and --each are for screens");
  TrialSplitOptions draw;
  for (size_t p = 0; p < 3; ++p) draw.fractions[p] = options.fractions.at(p);
  draw.seed = options.draw.seed;
  draw.repeats = repeat_scope_from_name(options.repeats);
  if (!options.repeated.empty()) draw.repeated = part_from_name(options.repeated);
  return draw_trial_split(recording, options.name, draw);
}

void run_recording(const Options& options) {
  if (options.folds > 0) throw UsageError("--folds is for screens");
  const Recording recording = Recording::open(options.screen);
  RecordingSplit split = make_recording_split(recording, options);
  split.how["command"] = command_line();
  lacuna::add_split(options.screen, split);
  std::vector<std::vector<std::string>> rows = {{"part", "rows", "share", "trials"}};
  const double all = double(std::max<uint64_t>(1, split.parts.size()));
  for (const auto& [part, count] : split.how.at("counts").items())
    rows.push_back({part, with_commas(count.get<uint64_t>()),
                    fmt::format("{:.2f}%", 100 * count.get<double>() / all),
                    split.how.contains("trials")
                        ? with_commas(split.how.at("trials").at(part).get<uint64_t>())
                        : ""});
  fmt::print("split '{}' of {}, by {}\n{}", split.name, options.screen,
             split.how.at("by").get<std::string>(), format_table(rows, {1, 2, 3}));
}

void save(const Options& options, Split& split) {
  split.how["command"] = command_line();
  lacuna::add_split(options.screen, split);
}

void save_and_print(const Screen& screen, Split split, const Options& options) {
  save(options, split);
  std::vector<std::vector<std::string>> rows = {{"part", "samples", "share"}};
  const double all = double(std::max<uint64_t>(1, screen.samples().size()));
  for (const auto& [part, count] : split.how.at("counts").items())
    rows.push_back({part, with_commas(count.get<uint64_t>()),
                    fmt::format("{:.2f}%", 100 * count.get<double>() / all)});
  fmt::print("split '{}' of {}, by {}\n{}", split.name, options.screen, options.by,
             format_table(rows, {1, 2}));
  for (const auto& note : split_notes(split)) print_note(note);
  if (options.by != "file") return;
  const uint32_t genes = screen.graph().genes().size();
  const auto shared = count_shared_sets(screen.samples(), genes, split).words(split.name);
  if (!shared.empty()) print_note(shared);
}

// One split for every category that samples have: it is test, the others are training and
// validation. All are drawn before the first is saved.
void run_each(const Screen& screen, const Options& options) {
  const std::string& name = options.draw.column;
  if (options.by != "category" || name.empty())
    throw UsageError("--each goes with --by category --column NAME");
  if (!options.draw.hold_out.empty()) throw UsageError("--each and --hold-out exclude each other");
  const Column column = find_values(screen.samples(), name);
  std::set<uint32_t> codes;
  if (column.is_category())
    for (uint64_t s = 0; s < screen.samples().size(); ++s)
      if (const auto code = column.code(s)) codes.insert(*code);
  if (codes.size() < 2)
    throw Error("column '{}' has {} categories with samples; --each needs two or more", name,
                codes.size());
  std::vector<Split> splits;
  for (const uint32_t code : codes) {
    Options one = options;
    one.draw.hold_out = {column.categories.at(code)};
    one.name = fmt::format("{}-{}", options.name, column.categories[code]);
    splits.push_back(make_split(screen, one));
  }
  std::vector<std::vector<std::string>> rows = {{"split", "train", "validation", "test", "unused"}};
  for (auto& split : splits) {
    save(options, split);
    rows.push_back({split.name});
    for (const char* part : {"train", "validation", "test", "unused"})
      rows.back().push_back(with_commas(split.how.at("counts").at(part).get<uint64_t>()));
  }
  fmt::print("{} splits of {}: one category of '{}' is test in each\n{}", splits.size(),
             options.screen, name, format_table(rows, {1, 2, 3, 4}));
}

void run(const Options& options) {
  if (is_recording(options)) return run_recording(options);
  if (options.by == "trial") throw UsageError("--by trial is for recordings");
  if (!options.repeated.empty()) throw UsageError("--repeated is for recordings");
  if (options.repeats == "session") throw UsageError("--repeats session is for recordings");
  if (options.folds > 0) return run_folds(options);
  const Screen screen = Screen::open(options.screen);
  if (options.each) return run_each(screen, options);
  save_and_print(screen, make_split(screen, options), options);
}

}  // namespace

void add_split(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("split", "Draw a split into train, validation and test, and save it");
  command
      ->add_option("SCREEN", options->screen, "A screen or a recording; the split is saved in it")
      ->required();
  command->add_option("--name", options->name, "What to call it")->required();
  command
      ->add_option("--by", options->by,
                   "random: at random\n"
                   "stratified: at random within the categories or bins of --column\n"
                   "gene: every test sample removes a gene that training never removes\n"
                   "pair: the recurring pair of genes of a test sample never occurs in training;\n"
                   "  with --column, its categories are the pairs\n"
                   "category: the categories of --column (screens, batches) are held out whole;\n"
                   "  leave-one-screen-out is --hold-out or --each\n"
                   "trial: of a recording, by whole trials (its default)\n"
                   "file: from --file")
      ->check(CLI::IsMember({"random", "stratified", "gene", "pair", "category", "trial", "file"}));
  command
      ->add_option(
          "--fractions", options->fractions,
          "Of samples (of a recording: rows), for train, validation and test; the rest is unused")
      ->delimiter(',')
      ->expected(3)
      ->capture_default_str();
  command
      ->add_option(
          "--folds", options->folds,
          "With --by gene: so many splits, NAME-1, NAME-2, ..., in which every gene is held\n"
          "out for test once; of --fractions only validation's counts")
      ->check(CLI::Range(2, 1000));
  command->add_option("--seed", options->draw.seed, "Same seed, same split")->capture_default_str();
  command->add_option("--column", options->draw.column, "A column or a label");
  command
      ->add_option("--hold-out", options->draw.hold_out,
                   "By category: these are test, all of them; the rest is train and validation")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--each", options->each,
                    "By category: leave one out, a split for every category: NAME-CATEGORY");
  command->add_option("--bins", options->draw.bins, "Bins of equal size for a column of numbers")
      ->capture_default_str();
  command
      ->add_option(
          "--repeats", options->repeats,
          "together: samples that remove the same genes share a part, and so do trials that show\n"
          "  the same stimulus; session: trials, within a session; apart: they need not")
      ->check(CLI::IsMember({"together", "session", "apart"}))
      ->capture_default_str();
  command->add_option(
      "--file", options->file,
      "JSON lists of sample numbers: {\"train\": [...], \"val\": [...], ...}; of a recording,\n"
      "of rows: {\"train\": {\"SESSION/SEGMENT\": [0, 1, [10, 250], ...]}, ...}");
  command
      ->add_option("--repeated", options->repeated,
                   "Of a recording: the part for stimuli that several trials show, while there is\n"
                   "room; test compares a model with the noise of the responses")
      ->check(CLI::IsMember({"train", "validation", "test"}));
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
      "  lacuna split demo --name new-screen --by category --column screen --hold-out Kuzmin2018\n"
      "  lacuna split demo --name leave-out --by category --column screen --each\n"
      "  lacuna split demo --name gene --by gene --folds 5 --seed 1\n"
      "  lacuna split demo --name even --by stratified --column label:gene_interaction\n"
      "  lacuna split demo --name published --by file --file split.json\n"
      "  lacuna split recording --name trials --fractions 0.8,0.1,0.1 --seed 1");
  command->callback([options, command] {
    if (!options->remove) return run(*options);
    for (const CLI::Option* option : command->get_options())
      if (option->count() > 0 && !is_for_removal(option->get_name()))
        throw UsageError("--remove goes with --name alone, not with {}", option->get_name());
    remove(*options);
  });
}

}  // namespace lacuna::cli
