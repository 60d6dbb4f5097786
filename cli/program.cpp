// The program `lacuna`, and lacuna-torch (cli/torch_commands.h): declares the subcommands, and
// turns what they throw into one line and an exit code.
//   0 done    1 it failed    2 the call was wrong    75 stopped by a signal: resume me
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch_commands.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/mapped_fault.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/printable.h"

namespace {

constexpr int kFailed = 1, kWrongCall = 2;

constexpr const char* kAbout =
    R"(Lacuna trains models on perturbed copies of one big thing without making the copies.

Five words:
  screen     one graph and many samples, each of which removes a few genes and has measured labels
  recording  sessions of movies with spike counts; a sample is a short window
  store      data expanded ahead of time and written to disk, for those who want to
  rung       where a sample is expanded: on disk, in memory, by a worker, on the device, in the kernel
  run        a trained model with its settings, metrics and checkpoints

First steps:
  lacuna generate screen demo --size mini --removed 8 --seed 1
  lacuna split demo --name pair --by pair --column query_pair --seed 1
  lacuna train configs/demo.yaml --set screen=demo --out run
  lacuna report run --out report.html
)";

// One line, whatever a file's name or contents put into the message.
void print_error(std::string message) {
  while (message.ends_with('\n')) message.pop_back();  // torch's
  fmt::print(stderr, "error: {}\n", lacuna::printable(message));
}

// "lacuna generate screen --help": of the innermost subcommand that was named, which has the
// options.
std::string help_of_call(const CLI::App& app) {
  std::string words = "lacuna";
  for (auto named = app.get_subcommands(); !named.empty(); named = named[0]->get_subcommands())
    words += " " + named[0]->get_name();
  return words + " --help";
}

int run(int argc, char** argv) {
  CLI::App app(kAbout, "lacuna");
  app.set_version_flag("--version", LACUNA_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  using namespace lacuna::cli;
  add_bench(app);
  add_clean(app);
  add_concat(app);
  add_generate(app);
  add_import(app);
  add_info(app);
  add_plan(app);
  add_prepare(app);
  add_report(app);
  add_split(app);
  add_features(app);
  add_subset(app);
  add_transform(app);
  add_verify(app);
  add_torch_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const bool has_subcommand = !app.get_subcommands().empty();
    const bool is_unknown = !has_subcommand && argc > 1 && argv[1][0] != '-';
    print_error(
        fmt::format("{}; see `{}`",
                    is_unknown ? fmt::format("there is no subcommand '{}'", argv[1]) : error.what(),
                    help_of_call(app)));
    return kWrongCall;
  }
  if (std::fflush(stdout) != 0) lacuna::throw_errno("standard output", "cannot write");
  return lacuna::cli::exit_code();
}

}  // namespace

int lacuna::cli::run_program(int argc, char** argv) {
  lacuna::cli::remember_command_line(argc, argv);
  lacuna::cli::prepare_process();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error to report, not a death
  lacuna::report_mapped_faults();
  try {
    return ::run(argc, argv);
  } catch (const lacuna::UsageError& error) {
    print_error(error.what());
    return kWrongCall;
  } catch (const lacuna::Stopped& stopped) {
    print_error(stopped.what());
    return kFailed;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; close other programs or work on a part (see `lacuna subset`)");
    return kFailed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}
