// The config of a run, with the settings of a model that is only a name here.
#include "lacuna/run/config.h"

#include "fuzz/fuzz.h"
#include "lacuna/run/model_settings.h"

using namespace lacuna;

static const bool known = [] {
  add_model_settings("mlp", "name: mlp\nwidth: 64\ndropout: 0.1\nfeatures: [a, b]\n");
  return true;
}();

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
