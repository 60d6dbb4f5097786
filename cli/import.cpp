// lacuna import screen: options to a ScreenImport, and the report to the terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/spreadsheet.h"
#include "cli/table_spec.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/core/text/printable.h"

namespace lacuna::cli {
namespace {

constexpr const char* kFooter = R"(
SPEC is one word: PATH,key=value,... and for --network, --features, --samples and --split
NAME=PATH,key=value,... Lists inside a value are joined by '+'. Every table takes
  separator=tab|comma|semicolon|space  between cells; left out: by name, .csv comma, .tsv .txt tab
  header=yes|no (yes)   no: the first line is data, and columns are called 1, 2, ...
  decimal=,             numbers have decimal commas
  sheet=NAME            of an .xlsx (Python's openpyxl reads it); left out: the first
and every place with gene names
  gene-separator=TEXT   between several genes in one cell; left out: one gene a cell
  pattern=REGEX         its first group is the gene: ^([^_]+) takes YAR002W from YAR002W_dma91
  ignore=NAME+NAME      names that stand for no gene, such as a control locus
  case=fold|exact (fold)  fold: vps8 is VPS8, where no other gene has that name in any case
  unknown=error|drop|drop-most  for this table; left out: as --unknown says

--genes       gene=COLUMN (gene)  alias=COLUMN+...  alias-separator=TEXT
--aliases     gene=COLUMN (gene)  alias=COLUMN+... (alias)  alias-separator=TEXT
--network     source=COLUMN (source)  target=COLUMN (target)
              weight=COLUMN: stored as edge value; left out: none   min=, max=: rows outside are left out
              missing-weight=NUMBER|drop: left out: an error
              directed: left out: undirected, both directions are stored
              self-loops=yes|no (yes): one a gene, after all edges   loop-weight=NUMBER (1)
              repeated=first|keep|max|mean (first): an edge that is listed again
--reactions   reaction=COLUMN (reaction)  rule=COLUMN (rule)  numbers=COLUMN+...: reaction features
--stoichiometry  reaction=COLUMN (reaction)  metabolite=COLUMN (metabolite)  coefficient=COLUMN (coefficient)
--features    .npy with rows in gene order, or a table: gene=COLUMN (gene)  columns=COLUMN+... (all others)
              missing=NUMBER|nan: for genes without; left out: an error
--samples     removed=COLUMN+...  label=COLUMN+...  numbers=COLUMN+...  categories=COLUMN+...  split=COLUMN
              COLUMN may be NEW:COLUMN, to store it under another name
              self=once|drop (once): a row that names a gene twice removes it once, or is left out
              genotype=GENE+...|rest: 0/1 columns called like genes, 1 = removed; rest: all other
              columns   removed-is=0: there 0 = removed
              matrix: names of genes above and before, a score a cell; label=NAME is what it is
              called   row=COLUMN: names before (the first)   skip=COLUMN+...: no part of it
--json-lmdb   types=TYPE+...: only these perturbation types   broken=error|drop (error)
--split       NAME=FILE.json: {"train": [...], "val": [...], "test": [...]} of rows (0 = first row of
              the first table) or of keys

Examples:
  lacuna import screen yeast --genes genes.tsv,alias=name \
    --network physical=physical.tsv.gz,weight=weight,min=300 \
    --network binding=binding.tsv.gz,directed \
    --samples costanzo2010.tsv.gz,removed=gene_a+gene_b,label=score,numbers=sd+p \
    --unknown drop --duplicates mean
  lacuna import screen triples --genes genes.tsv --json-lmdb data/lmdb --split fold0=split.json

docs/import.md has the rest.)";

constexpr auto kNamed = TableSpec::Naming::named;

struct Arguments {
  std::string out, genes, reactions, stoichiometry, json_lmdb;
  std::string python;
  std::vector<std::string> aliases, networks, features, samples, splits, repeats_within;
  bool dry_run = false;
  ScreenImport import;
};

NetworkOptions network(TableSpec spec) {
  static const std::map<std::string, RepeatedEdges> kRepeated = {{"first", RepeatedEdges::first},
                                                                 {"keep", RepeatedEdges::keep},
                                                                 {"max", RepeatedEdges::max},
                                                                 {"mean", RepeatedEdges::mean}};
  NetworkOptions options;
  options.name = spec.required_name("--network physical=physical.tsv");
  options.table = spec.take_table();
  options.names = spec.take_names();
  options.source_column = spec.take("source", "source");
  options.target_column = spec.take("target", "target");
  options.weight_column = spec.take("weight");
  options.min = spec.take_number("min");
  options.max = spec.take_number("max");
  options.directed = spec.take_flag("directed");
  const std::string loops = spec.take("self-loops", "yes");
  if (loops != "yes" && loops != "no") spec.refuse("self-loops", "is yes or no");
  options.self_loops = loops == "yes";
  options.loop_weight = spec.take_number("loop-weight").value_or(1);
  const auto repeated = kRepeated.find(spec.take("repeated", "first"));
  if (repeated == kRepeated.end()) spec.refuse("repeated", "is first, keep, max or mean");
  options.repeated = repeated->second;
  const std::string missing = spec.take("missing-weight");
  if (missing == "drop")
    options.missing_weight = NAN;
  else if (!missing.empty())
    options.missing_weight = parse_number(missing);
  if (!missing.empty() && !options.missing_weight)
    spec.refuse("missing-weight", "is a number or drop");
  spec.finish();
  return options;
}

MetabolismOptions metabolism(TableSpec reactions, TableSpec stoichiometry) {
  MetabolismOptions options;
  options.reactions = reactions.take_table();
  options.names = reactions.take_names();
  if (!options.names.separator.empty())
    reactions.refuse("gene-separator", "is not for rules: they say and, or");
  options.reaction_column = reactions.take("reaction", "reaction");
  options.rule_column = reactions.take("rule", "rule");
  options.number_columns = reactions.take_list("numbers");
  reactions.finish();
  options.stoichiometry = stoichiometry.take_table();
  options.stoichiometry_reaction_column = stoichiometry.take("reaction", "reaction");
  options.metabolite_column = stoichiometry.take("metabolite", "metabolite");
  options.coefficient_column = stoichiometry.take("coefficient", "coefficient");
  stoichiometry.finish();
  return options;
}

FeatureOptions features(TableSpec spec) {
  FeatureOptions options;
  options.name = spec.required_name("--features esm2=embeddings.npy");
  const std::string missing = spec.take("missing");
  if (!missing.empty()) options.missing = parse_number(missing);
  if (!missing.empty() && !options.missing) spec.refuse("missing", "is a number or nan");
  if (fs::path(spec.path()).extension() == ".npy") {
    options.source = {spec.path()};
    spec.finish();
    return options;
  }
  options.source = spec.take_table();
  options.names = spec.take_names();
  options.gene_column = spec.take("gene", "gene");
  options.columns = spec.take_list("columns");
  spec.finish();
  return options;
}

SampleTableOptions samples(TableSpec spec) {
  SampleTableOptions options;
  options.name = spec.take_name();
  options.table = spec.take_table();
  options.names = spec.take_names();
  options.removed_columns = spec.take_list("removed");
  options.labels = spec.take_columns("label");
  options.numbers = spec.take_columns("numbers");
  options.categories = spec.take_columns("categories");
  options.splits = spec.take_columns("split");
  options.genotype_columns = spec.take_list("genotype");
  const std::string removed_is = spec.take("removed-is", "1");
  if (removed_is != "0" && removed_is != "1") spec.refuse("removed-is", "is 0 or 1");
  options.removed_is = removed_is == "1" ? 1 : 0;
  options.is_matrix = spec.take_flag("matrix");
  options.row_column = spec.take("row");
  options.skip = spec.take_list("skip");
  if (!options.is_matrix && (!options.row_column.empty() || !options.skip.empty()))
    spec.refuse("matrix", "must be said for row= and skip=");
  const std::string self = spec.take("self", "once");
  if (self != "once" && self != "drop") spec.refuse("self", "is once or drop");
  options.drop_self = self == "drop";
  spec.finish();
  return options;
}

JsonLmdbOptions json_lmdb(TableSpec spec) {
  JsonLmdbOptions options;
  options.path = spec.path();
  options.names = spec.take_names();
  options.perturbation_types = spec.take_list("types");
  const std::string broken = spec.take("broken", "error");
  if (broken != "error" && broken != "drop") spec.refuse("broken", "is error or drop");
  options.drop_broken = broken == "drop";
  spec.finish();
  return options;
}

SplitOptions split(TableSpec spec) {
  const SplitOptions options = {spec.take_name(), spec.path()};
  spec.finish();
  return options;
}

// The specs read into arguments.import.
void read_specs(Arguments& arguments) {
  ScreenImport& import = arguments.import;
  import.genes = gene_table({"--genes", arguments.genes}, {});
  for (const auto& text : arguments.aliases)
    import.aliases.push_back(gene_table({"--aliases", text}, {"alias"}));
  for (const auto& text : arguments.networks)
    import.networks.push_back(network({"--network", text, kNamed}));
  if (arguments.reactions.empty() != arguments.stoichiometry.empty())
    throw UsageError("metabolism needs both --reactions and --stoichiometry");
  if (!arguments.reactions.empty())
    import.metabolism = metabolism({"--reactions", arguments.reactions},
                                   {"--stoichiometry", arguments.stoichiometry});
  for (const auto& text : arguments.features)
    import.features.push_back(features({"--features", text, kNamed}));
  for (const auto& text : arguments.samples)
    import.samples.push_back(samples({"--samples", text, kNamed}));
  if (!arguments.json_lmdb.empty())
    import.records = json_lmdb({"--json-lmdb", arguments.json_lmdb});
  for (const auto& text : arguments.splits)
    import.splits.push_back(split({"--split", text, kNamed}));
  if (!arguments.repeats_within.empty()) {
    import.repeats_within.emplace();
    for (const auto& name : arguments.repeats_within)
      if (name != "nothing") import.repeats_within->push_back(name);
  }
}

// "physical.tsv:82: 'YAR062W'" below the heading physical.tsv becomes "line 82: 'YAR062W'".
std::string shortened(const std::string& example, const std::string& source) {
  if (example.starts_with(source + ": ")) return example.substr(source.size() + 2);
  if (example.starts_with(source + ":")) return "line " + example.substr(source.size() + 1);
  return example;
}

void print_report(const ImportReport& report) {
  std::string_view source;
  for (const Tally& tally : report.tallies()) {
    if (tally.count == 0) continue;
    if (tally.source != source) fmt::print("{}\n", printable(source = tally.source));
    fmt::print("{:>14}  {}\n", with_commas(tally.count), printable(tally.what));
    std::vector<std::string> examples;
    for (const std::string& example : tally.examples)
      examples.push_back(printable(shortened(example, tally.source)));
    if (!examples.empty())
      fmt::print("{:>14}  e.g. {}{}\n", "", fmt::join(examples, "; "),
                 tally.count > examples.size() ? "; ..." : "");
  }
}

// All of them, each once, with what they may have meant.
void print_unknown(const ImportReport& report) {
  if (report.unknown_names.empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"unknown gene", "in cell", "rows", "first at", ""}};
  for (const UnknownName& unknown : report.unknown_names)
    rows.push_back({unknown.name, unknown.cell == unknown.name ? "" : unknown.cell,
                    with_commas(unknown.count), unknown.where, unknown.why});
  fmt::print("\n{}", format_table(rows, {2}));
}

std::string counts_of(const HeteroGraph& graph, const Samples& samples) {
  return fmt::format("{} genes, {} edge types, {} samples", with_commas(graph.genes().size()),
                     graph.edge_types().size(), with_commas(samples.size()));
}

void import_or_try(const Arguments& arguments, ImportReport& report) {
  TerminalProgress progress;
  if (arguments.dry_run) {
    const ReadImport read = read_import(arguments.import, report, progress);
    print_report(report);
    print_unknown(report);
    fmt::print("nothing written (--dry-run): {}\n", counts_of(read.graph, read.samples));
    return;
  }
  const Screen screen =
      import_screen(arguments.out, arguments.import, command_line(), report, progress);
  print_report(report);
  fmt::print("wrote {}: {}\n", arguments.out, counts_of(screen.graph(), screen.samples()));
}

void run(Arguments& arguments) {
  read_specs(arguments);
  Spreadsheets spreadsheets(arguments.python);
  spreadsheets.convert(arguments.import);
  ImportReport report;
  try {
    import_or_try(arguments, report);
  } catch (const RefusedNames&) {  // the report says more than one line can
    print_report(report);
    print_unknown(report);
    throw;
  }
}

// An option whose values are the names of an enum's members.
template <class Policy>
void add_policy(CLI::App* app, const std::string& option, Policy& policy,
                const std::vector<Policy>& values, const std::string& help) {
  std::vector<std::string> names;
  for (const Policy value : values) names.emplace_back(name(value));
  const auto set = [&policy, values](const std::string& word) {
    for (const Policy value : values)
      if (name(value) == word) policy = value;
  };
  app->add_option_function<std::string>(option, set, fmt::format("{} ({})", help, name(policy)))
      ->option_text(fmt::format("{}", fmt::join(names, "|")))
      ->check(CLI::IsMember(names));
}

}  // namespace

void add_import(CLI::App& app) {
  CLI::App* import =
      app.add_subcommand("import", "Make a screen or a recording from files of others");
  import->require_subcommand(1);
  add_import_names(*import);
  add_import_recording(*import);
  CLI::App* screen = import->add_subcommand(
      "screen",
      "Make a screen from tables (TSV, CSV, plain or gzip) or an LMDB of JSON records.\n"
      "Nothing is guessed: what is odd in the data is counted, shown and kept in the manifest.");
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  screen->add_option("OUT", a.out, "Directory to write")->required();
  const auto add = [&](const char* option, auto& target, const char* what, const char* help) {
    return screen->add_option(option, target, help)->option_text(what)->allow_extra_args(false);
  };
  add("--genes", a.genes, "SPEC", "Table of the genes, in their order")->required();
  add("--aliases", a.aliases, "SPEC ...", "More names for genes");
  add("--network", a.networks, "SPEC ...", "Edges between genes, of type NAME");
  add("--reactions", a.reactions, "SPEC", "Reactions with their gene rules (and, or)");
  add("--stoichiometry", a.stoichiometry, "SPEC", "Metabolites of the reactions");
  add("--features", a.features, "SPEC ...", "Given features of the genes");
  add("--samples", a.samples, "SPEC ...", "Samples, a row each; NAME goes to the column 'screen'");
  add("--json-lmdb", a.json_lmdb, "SPEC", "Samples, from an LMDB of JSON records");
  add("--split", a.splits, "SPEC ...", "Splits, from JSON index lists");
  add_policy(screen, "--unknown", a.import.unknown,
             {UnknownPolicy::error, UnknownPolicy::drop, UnknownPolicy::drop_most},
             "Rows and records that name an unknown gene; drop-most: even most of a table's");
  add_policy(screen, "--duplicates", a.import.duplicates,
             {DuplicatePolicy::keep, DuplicatePolicy::mean, DuplicatePolicy::first},
             "Samples that remove the same genes");
  add("--repeats-within", a.repeats_within, "COLUMN,...",
      "Only samples that agree in these columns repeat each other (screen; for records "
      "dataset_name,"
      "experiment_type,media,media_state,temperature); 'nothing': removed genes alone count")
      ->delimiter(',');
  add_policy(screen, "--missing-labels", a.import.missing_labels,
             {MissingLabelPolicy::keep, MissingLabelPolicy::drop, MissingLabelPolicy::error},
             "Samples without any label; kept as NaN");
  add_policy(screen, "--non-numbers", a.import.non_numbers,
             {NonNumberPolicy::error, NonNumberPolicy::missing},
             "Cells that should be numbers and are not");
  screen->add_flag("--dry-run", a.dry_run, "Read everything, print the report, write nothing");
  add("--python", a.python, "PROGRAM", "For .xlsx (LACUNA_PYTHON, else python3)");
  add("--threads", a.import.threads, "N", "For JSON records; 0: all (0)");
  screen->footer(kFooter);
  screen->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
