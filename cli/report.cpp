// lacuna report RUN...: what runs did, as one HTML file that opens offline.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/report/report.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out = "report.html";
  ReportOptions report;
};

void run(const Options& options) {
  TerminalProgress progress;
  const size_t runs = write_report({options.runs.begin(), options.runs.end()}, options.out,
                                   progress, options.report);
  fmt::print("{}: {} {}, {}\n", options.out, runs, runs == 1 ? "run" : "runs",
             format_bytes(fs::file_size(options.out)));
}

}  // namespace

void add_report(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("report", "Write what runs did as one HTML file that opens offline");
  command->add_option("RUN", options->runs, "Runs, or folders of runs")->required();
  command->add_option("--out", options->out, "The file to write; an old one is replaced")
      ->capture_default_str();
  command
      ->add_option("--threshold", options->report.threshold,
                   "A measurement is strong from here on, of either sign [the outermost 5%]")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--gene", options->report.genes,
                   "A section about this gene: its networks, its samples, its predictions")
      ->allow_extra_args(false)
      ->delimiter(',');
  command->footer(
      "Examples:\n"
      "  lacuna report runs/demo\n"
      "  lacuna report runs/demo --gene VPS8 --threshold 0.08\n"
      "  lacuna report grid --out grid.html                        # what lacuna compare wrote\n"
      "  lacuna report runs/seed-1 runs/seed-2 runs/shuffled --out compare.html");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
