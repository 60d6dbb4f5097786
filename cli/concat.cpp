#include "cli/commands.h"

namespace lacuna::cli {

void add_concat(CLI::App&) {}

}  // namespace lacuna::cli
