#include "cli/commands.h"

namespace lacuna::cli {

void add_import(CLI::App&) {}

}  // namespace lacuna::cli
