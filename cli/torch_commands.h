// The two programs, and what needs torch.
//
// Loading torch takes longer than most calls do, and half a gigabyte of address space. `lacuna`,
// which people call, does without it; `lacuna-torch`, which lies beside it, is made of the same
// files and has everything. Both know every subcommand and its options, so that help and a wrong
// call need no torch. Where a call is right and needs torch, `lacuna` becomes the other (execv):
// the same words in the same process, so that signals, exit codes and output stay those of one
// program, and its name stays `lacuna`.
//
// What the two differ in stands below; cli/torch/torch_program.cpp has it for lacuna-torch,
// cli/without_torch/torch_program.cpp for `lacuna`. A build without torch has only that one, and
// says so instead of becoming the other.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna::cli {

void add_torch_commands(CLI::App& app);   // the subcommands that cli/torch/ does
void add_torch_benches(CLI::App& bench);  // those of `lacuna bench`

// ---- what the programs differ in, beside run() of cli/torch_calls.h
bool is_built_with_torch();
// What the process needs before anything else.
void prepare_process();
// The keys of a config with their defaults, for the help: those of every model, too. (`lacuna` has
// the text that lacuna-torch made when both were built.)
std::string all_settings();
// For an option that needs torch, such as `bench ladder --train`: call it before anything is begun,
// for `lacuna` starts again as the other program. Returns in lacuna-torch alone. `what`: for the
// message.
void need_torch(const std::string& what);

}  // namespace lacuna::cli
