// The subcommands of `lacuna`: one file each, cli/<name>.cpp, with a function add_<name>() that
// run_program() (program.h) calls.
//
// add_*() declares the options and sets a callback that does the work. Failures are thrown:
// run_program() alone turns an Error into a line on stderr and an exit code. To add a subcommand: a
// file here, a line below, a line in program.cpp. Those that need torch do their work in
// cli/torch/, and have their lines in torch_calls.h and torch_commands.cpp (cli/torch_commands.h
// says why).
#pragma once

#include <CLI/CLI.hpp>

#include "lacuna/run/plugin/plugin.h"

namespace lacuna::cli {

void add_bench(CLI::App& app);
void add_clean(CLI::App& app);
void add_concat(CLI::App& app);
void add_ensemble(CLI::App& app);
void add_features(CLI::App& app);
void add_generate(CLI::App& app);
void add_import(CLI::App& app);
void add_import_names(CLI::App& import);      // a subcommand of import
void add_import_recording(CLI::App& import);  // a subcommand of import
void add_info(CLI::App& app);
void add_plan(CLI::App& app);
void add_prepare(CLI::App& app);
void add_report(CLI::App& app);
void add_split(CLI::App& app);
void add_subset(CLI::App& app);
void add_transform(CLI::App& app);
void add_verify(CLI::App& app);

// ---- with torch
void add_compare(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_explain(CLI::App& app);
void add_export(CLI::App& app);
void add_predict(CLI::App& app);
void add_profile(CLI::App& app);
void add_train(CLI::App& app);

// The library that brings the model along, of whatever config the call reads.
inline void add_plugin_option(CLI::App& command) {
  command.add_option_function<std::string>(
      "--plugin", [](const std::string& library) { name_plugin(library); },
      "A library with a model of your own, libmine.so [the config's or the run's]");
}

// Which model of a run, on which device and screen; `request` has fields of these names.
template <class Request>
void add_model_options(CLI::App& command, Request& request) {
  command.add_option("--checkpoint", request.checkpoint,
                     "last, best_pearson or best_mse [best_pearson where there is one]");
  command.add_option("--device", request.device, "auto, cpu or cuda [the run's]")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command.add_option("--screen", request.screen, "Another screen with the same genes and graph");
  add_plugin_option(command);
}

}  // namespace lacuna::cli
