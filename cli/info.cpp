#include "cli/commands.h"

namespace lacuna::cli {

void add_info(CLI::App&) {}

}  // namespace lacuna::cli
