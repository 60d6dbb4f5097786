// lacuna import names: more names for the genes of a screen that is there already.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/spreadsheet.h"
#include "cli/table_spec.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"

namespace lacuna::cli {
namespace {

struct Arguments {
  std::string screen, table, python;
};

void run(const Arguments& arguments) {
  TableSpec spec("TABLE", arguments.table);
  GeneTableOptions options = gene_table(spec, {"alias"});
  Spreadsheets spreadsheets(arguments.python);
  spreadsheets.convert(options.table);
  TerminalProgress progress;
  const Screen screen = Screen::open(arguments.screen, progress);
  Names names = screen.graph().genes().names;
  ImportReport report;
  ImportContext context = {UnknownPolicy::error, NonNumberPolicy::error, report, progress};
  import_aliases(options, names, context);
  const std::string table = options.table.path.string();
  const uint64_t foreign = report.count(table, "rows about other genes");
  if (foreign == report.count(table, "rows"))
    throw Error("{}: no row is about a gene of {}; is '{}' the column of genes, such as {}?", table,
                arguments.screen, options.gene_column, names[0]);
  const uint64_t added = add_aliases(arguments.screen, names);
  fmt::print(
      "{}: {} new names for its {} genes{}\n", arguments.screen, with_commas(added),
      with_commas(names.size()),
      foreign == 0 ? "" : fmt::format("; {} rows are about other genes", with_commas(foreign)));
}

}  // namespace

void add_import_names(CLI::App& import) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = import.add_subcommand(
      "names", "Add other names of genes (standard names) to a screen that is there");
  command->add_option("SCREEN", arguments->screen, "A screen")->required();
  command
      ->add_option("TABLE", arguments->table,
                   "PATH,gene=COLUMN (gene),alias=COLUMN+... (alias),alias-separator=TEXT; the "
                   "first alias of a gene is shown")
      ->required();
  command->add_option("--python", arguments->python, "For .xlsx (LACUNA_PYTHON, else python3)")
      ->option_text("PROGRAM");
  command->footer(
      "Numbers stay as they are: runs and stores of the screen remain valid.\n"
      "Example:\n"
      "  lacuna import names yeast genes.tsv,alias=name");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
