#include "cli/commands.h"

namespace lacuna::cli {

void add_split(CLI::App&) {}

}  // namespace lacuna::cli
