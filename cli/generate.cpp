#include "cli/commands.h"

namespace lacuna::cli {

void add_generate(CLI::App&) {}

}  // namespace lacuna::cli
