// The two programs, and what needs torch.
//
// Loading torch takes longer than most calls do, and half a gigabyte of address space. `lacuna`,
// which people call, does without it; `lacuna-torch`, beside it, is built from the same files and
// has everything. Both know every subcommand and its options, so help and wrong calls need no
// torch. A correct call that needs torch makes `lacuna` become the other (execv): the same
// arguments in the same process, so that signals, exit codes and output stay those of one program,
// and its name stays `lacuna`.
//
// The functions that differ are below: cli/torch/torch_program.cpp has those of lacuna-torch,
// cli/without_torch/torch_program.cpp those of `lacuna`. A build without torch has only `lacuna`,
// which says so instead of becoming the other.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna::cli {

void add_torch_commands(CLI::App& app);   // the subcommands that cli/torch/ does
void add_torch_benches(CLI::App& bench);  // those of `lacuna bench`

// ---- what differs between the programs, beside run() of cli/torch_calls.h
bool is_built_with_torch();
// What the process needs before anything else.
void prepare_process();
// The keys of a config with their defaults, for the help: those of every model, too. (`lacuna` has
// the text that lacuna-torch made when both were built.)
std::string all_settings();
// For an option that needs torch, such as `bench ladder --train`: call it before any work, because
// `lacuna` starts again as the other program. Returns in lacuna-torch only. `what` is for messages.
void need_torch(const std::string& what);

}  // namespace lacuna::cli
