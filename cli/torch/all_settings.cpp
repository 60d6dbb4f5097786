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
  const auto add_models = [&](DataKind kind) {
    for (const std::string& name : model_names(kind))
      text += fmt::format("\nUnder `model`, with name {}:\n{}", name,
                          indented(model_defaults(name, kind)));
  };
  add_models(DataKind::screen);
  text += "\nOf a config that names a recording:\n" + indented(default_recording_config());
  add_models(DataKind::recording);
  return text;
}

}  // namespace lacuna::cli
