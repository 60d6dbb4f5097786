// The program `lacuna`, and lacuna-torch (cli/torch_commands.h): declares the subcommands, and
// turns what they throw into one line and an exit code.
//   0 done    1 it failed    2 the call was wrong    75 stopped by a signal: resume me
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/first_steps.h"
#include "cli/program.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch_commands.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/file.h"
#include "lacuna/core/system/mapped_fault.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/printable.h"

namespace {

constexpr int kFailed = 1, kWrongCall = 2;

// One line, whatever a file's name or contents put into the message.
void print_error(std::string message) {
  while (message.ends_with('\n')) message.pop_back();  // torch's
  fmt::print(stderr, "error: {}\n", lacuna::printable(message));
}

// The innermost subcommand that was named, which has the options, and "lacuna generate screen".
const CLI::App& called(const CLI::App& app, std::string& words) {
  const CLI::App* innermost = &app;
  words = "lacuna";
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands()[0];
    words += " " + innermost->get_name();
  }
  return *innermost;
}

// What is wrong with the call, the first word that nobody knows with what was probably meant.
void print_wrong_call(const CLI::App& app, const CLI::ParseError& error) {
  std::string words, what = error.what();
  const CLI::App& command = called(app, words);
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const bool has_commands = !command.get_subcommands([](const CLI::App*) { return true; }).empty();
  if (!unknown.empty()) {
    if (has_commands && !unknown[0].starts_with('-'))
      what = fmt::format("there is no subcommand '{}'", unknown[0]);
    what += lacuna::cli::near_miss(command, unknown[0]);
  }
  print_error(fmt::format("{}; see `{} --help`", what, words));
}

// "lacuna help train" is "lacuna train --help".
std::vector<char*> without_help(int argc, char** argv) {
  static char help[] = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc < 3 || std::string_view(argv[1]) != "help") return words;
  words.erase(words.begin() + 1);
  words.push_back(help);
  return words;
}

// Where an installed program has the CMake package, which plugins are built with.
std::string cmake_dir() {
  const lacuna::fs::path program = lacuna::fs::read_symlink("/proc/self/exe");
  const lacuna::fs::path folder = program.parent_path().parent_path() / LACUNA_CMAKE_DIR;
  if (!lacuna::fs::exists(folder / "lacunaConfig.cmake"))
    throw lacuna::Error(
        "{} was not installed and has no CMake package; `make install PREFIX=...`, or a wheel, "
        "has one (docs/install.md)",
        program.string());
  return folder.string();
}

int run(int argc, char** argv) {
  using namespace lacuna::cli;
  if (argc == 1 || (argc == 2 && std::string_view(argv[1]) == "help")) {
    fmt::print("{}", kWorkflow);
    return 0;
  }
  CLI::App app(kAbout, "lacuna");
  app.set_version_flag("--version", LACUNA_VERSION);
  app.add_flag_callback(
      "--cmake-dir", [] { throw CLI::CallForVersion(cmake_dir(), 0); },
      "Print the folder of the CMake package, to build plugins with");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_bench(app);
  add_clean(app);
  add_concat(app);
  add_ensemble(app);
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
  const std::vector<char*> words = without_help(argc, argv);
  const std::string first = words[1];
  const auto is_first = [&](const CLI::App* command) { return command->get_name() == first; };
  if (!first.starts_with('-') && app.get_subcommands(is_first).empty()) {  // with --help, too
    print_error(fmt::format("there is no subcommand '{}'{}; see `lacuna --help`", first,
                            near_miss(app, first)));
    return kWrongCall;
  }
  try {
    app.parse(int(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    print_wrong_call(app, error);
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
