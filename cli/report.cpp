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
};

void run(const Options& options) {
  TerminalProgress progress;
  const size_t runs =
      write_report({options.runs.begin(), options.runs.end()}, options.out, progress);
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
  command->footer(
      "Examples:\n"
      "  lacuna report runs/demo\n"
      "  lacuna report runs/seed-1 runs/seed-2 runs/shuffled --out compare.html");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
