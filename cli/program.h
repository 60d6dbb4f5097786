// The whole program as a function: parses the words, does the subcommand, prints what it threw as
// one line. Gives the exit code: 0 done, 1 it failed, 2 the call was wrong, 75 stopped: resume me.
#pragma once

namespace lacuna::cli {

int run_program(int argc, char** argv);

}  // namespace lacuna::cli
