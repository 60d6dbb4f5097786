#include "lacuna/run/plugin/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/run/model_settings.h"

namespace lacuna {
namespace {

fs::path& named() {
  static fs::path path;
  return path;
}

bool is_loading = false;
std::string refusal;  // the first of the plugin that is being loaded

// Loads it; gives what is wrong with it, or nothing.
std::string problem_of(const fs::path& path) {
  const size_t before = model_names().size();
  refusal.clear();
  is_loading = true;
  const void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  is_loading = false;
  if (!handle)
    return fmt::format(
        "the plugin cannot be loaded: {}; build it against this Lacuna (docs/add-a-model.md)",
        ::dlerror());
  if (!refusal.empty())
    return fmt::format("the plugin {} cannot be used: {}", path.string(), refusal);
  if (model_names().size() == before)
    return fmt::format("the plugin {} adds no model: it has no add_model() (docs/add-a-model.md)",
                       path.string());
  return "";
}

}  // namespace

void load_plugin(const fs::path& library) {
  // A library adds its models the first time that it is loaded: what was wrong then stays wrong.
  static std::map<fs::path, std::string> known;
  const fs::path path = fs::weakly_canonical(fs::absolute(library));
  if (!fs::is_regular_file(path))
    throw Error("there is no plugin {}; build it (docs/add-a-model.md), or name it with --plugin",
                path.string());
  if (!known.contains(path)) known[path] = problem_of(path);
  if (!known[path].empty()) throw Error("{}", known[path]);
}

void name_plugin(const fs::path& library) { named() = fs::absolute(library); }

const fs::path& named_plugin() { return named(); }

Json plugin_description(const fs::path& library) {
  return {{"path", fs::absolute(library).string()}, {"xxh3", hex(hash_file(library))}};
}

std::string plugin_note(const Json& run_info, const fs::path& library) {
  const auto kept = run_info.find("plugin");
  if (library.empty() || kept == run_info.end()) return "";
  if (kept->value("xxh3", "") == hex(hash_file(library))) return "";
  return fmt::format(
      "the plugin {} has changed since the run was trained with it: the weights are the run's, "
      "what "
      "is computed with them is the plugin's",
      library.string());
}

void refuse_model(const std::string& why) {
  LACUNA_ASSERT(is_loading);
  if (refusal.empty()) refusal = why;
}

}  // namespace lacuna
