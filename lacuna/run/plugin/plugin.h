// Models that a shared library brings along: `--plugin libmine.so`, or `plugin:` in a config.
//
// A plugin is a library with the file of a model in it (docs/add-a-model.md), built against this
// Lacuna. Its models become known when it is loaded, as those of Lacuna do; nothing else is asked
// of it. Reading a config loads the plugin that it names, once a process; it is never unloaded.
#pragma once

#include <string>

#include "lacuna/core/system/file.h"
#include "lacuna/core/text/json.h"

namespace lacuna {

// Throws Error where there is no such file, where it cannot be loaded, where it adds no model, and
// where one of its models cannot be taken (the name is taken; it was built for another Lacuna).
void load_plugin(const fs::path& library);

// `--plugin`: from here on every config of a screen that is read has this plugin, whatever it names
// itself. A run finds its plugin so where that has moved.
void name_plugin(const fs::path& library);
const fs::path& named_plugin();  // empty: none

// What run.json keeps of a plugin: {"path": .., "xxh3": ..}, a checksum of its bytes.
Json plugin_description(const fs::path& library);
// Where run.json (Run::info()) knows other bytes than `library` has, which is what a library that
// was built again has: words for the user. Else empty.
std::string plugin_note(const Json& run_info, const fs::path& library);

// Called where a model cannot be added. While a plugin is loaded, load_plugin() throws this
// afterwards (an exception cannot leave a library that is being loaded). A model of Lacuna's own
// that cannot be added is a mistake of ours.
void refuse_model(const std::string& why);

}  // namespace lacuna
