#include "cli/commands.h"

namespace lacuna::cli {

void add_bench(CLI::App&) {}

}  // namespace lacuna::cli
