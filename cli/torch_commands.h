// The two programs, and what needs torch.
//
// Loading torch takes longer than most calls do. `lacuna`, which people call, does without it;
// `lacuna-torch`, which lies beside it, is made of the same files and has everything. Where a call
// needs torch, `lacuna` becomes the other (execv): the same words in the same process, so that
// signals, exit codes and output stay those of one program, and its name stays `lacuna`.
//
// What needs torch is what is declared here. cli/torch/torch_commands.cpp has it for lacuna-torch;
// cli/without_torch/torch_commands.cpp, for `lacuna`, has the names, and becomes the other program
// when it meets one; a build without torch says so instead.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna::cli {

void add_torch_commands(CLI::App& app);   // the subcommands of cli/torch/
void add_torch_benches(CLI::App& bench);  // those of `lacuna bench`

// For an option that needs torch, such as `bench ladder --train`: call it before anything is begun,
// for `lacuna` starts again as the other program. Returns in lacuna-torch alone. `what`: for the
// message.
void need_torch(const std::string& what);

}  // namespace lacuna::cli
