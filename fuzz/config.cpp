// The config of a run. Models bring their own settings, and torch; here is one that brings neither.
#include "lacuna/train/config.h"

#include "fuzz/fuzz.h"
#include "lacuna/nn/model_settings.h"
#include "lacuna/nn/settings.h"
#include "lacuna/train/config_difference.h"

namespace lacuna {

std::vector<std::string> model_names() { return {"mlp"}; }
const char* model_defaults(const std::string& name) {
  if (name != "mlp") throw Error("there is no model '{}'", name);
  return "name: mlp\nwidth: 64\ndropout: 0.1\nfeatures: [a, b]\n";
}
void complete_model(YAML::Node settings) {
  complete(settings, model_defaults(Settings(settings, "model").text("name")), "model");
}

}  // namespace lacuna

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryFile file;
  const std::string_view text = fuzz::text_of(data, size);
  file.write(text);
  fuzz::reads([&] {
    const Config config = read_config(file.path(), {"screen=s", "model={name: mlp}"});
    parse_config(to_yaml(config), {});
  });
  fuzz::reads([&] { parse_config("screen: s\nmodel: {name: mlp}\n", {std::string(text)}); });
  return 0;
}
