#include "cli/commands.h"

namespace lacuna::cli {

void add_subset(CLI::App&) {}

}  // namespace lacuna::cli
