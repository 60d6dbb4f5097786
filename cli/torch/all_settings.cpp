#include <fmt/format.h>

#include <sstream>

#include "cli/torch_commands.h"
#include "lacuna/run/config.h"
#include "lacuna/run/model_settings.h"

namespace lacuna::cli {
namespace {

// A text of YAML as lines of a help, further in.
std::string indented(const std::string& text) {
  std::istringstream in(text);
  std::string lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines += "  " + line + "\n";
  return lines;
}

}  // namespace

std::string all_settings() {
  std::string text = indented(default_config());
  for (const std::string& name : model_names())
    text += fmt::format("\nUnder `model`, with name {}:\n{}", name, indented(model_defaults(name)));
  return text;
}

}  // namespace lacuna::cli
