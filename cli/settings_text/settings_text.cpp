// Runs while Lacuna is built: prints all_settings(), which only a program with torch can make, as a
// C++ file that `lacuna` is made with.
#include <cstdio>

#include "cli/torch_commands.h"

int main() {
  std::printf(
      "extern const char* const all_settings_text;\nconst char* const all_settings_text =\n");
  std::printf("    R\"SETTINGS(%s)SETTINGS\";\n", lacuna::cli::all_settings().c_str());
}
