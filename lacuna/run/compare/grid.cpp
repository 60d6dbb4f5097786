#include "lacuna/run/compare/grid.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/run/compare/config_difference.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/screen/screen.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.compare";
constexpr int kVersion = 1;

template <class Values>
bool contains(const Values& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::string readable(std::string value) {
  for (char& c : value) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain && std::string_view(".=+-").find(c) == std::string_view::npos) c = '-';
  }
  return value;
}

std::string place_of(const fs::path& path) {
  return fs::weakly_canonical(fs::absolute(path)).string();
}

// ---- which runs

void check_options(const GridOptions& options) {
  if (options.seeds == 0) throw UsageError("--seeds is 0, but a comparison needs at least one");
  for (size_t i = 0; i < options.splits.size(); ++i)
    if (std::count(options.splits.begin(), options.splits.end(), options.splits[i]) > 1)
      throw UsageError("split '{}' is named twice", options.splits[i]);
  std::set<std::string> keys;
  for (const auto& variation : options.variations)
    if (!keys.insert(variation.key).second)
      throw UsageError("key '{}' is varied twice; name all its values at once", variation.key);
  for (const auto& setting : options.settings) {
    const std::string key = setting.substr(0, setting.find('='));
    if (keys.contains(key)) throw UsageError("key '{}' is both set and varied", key);
    keys.insert(key);
  }
  if (keys.contains("split")) throw UsageError("the splits are named by --splits, not by a key");
  if (keys.contains("train.seed")) throw UsageError("the seeds are 1 to --seeds, not a key");
}

GridRun make_run(const Config& base, const GridOptions& options, const std::string& split,
                 const std::vector<std::string>& values, uint64_t seed) {
  std::vector<std::string> settings;
  GridRun run = {readable(split), split, values, seed, {}, {}};
  for (size_t v = 0; v < values.size(); ++v) {
    settings.push_back(options.variations[v].key + "=" + values[v]);
    run.name += "_" + readable(settings.back());
  }
  settings.push_back("split=" + split);
  settings.push_back(fmt::format("train.seed={}", seed));
  run.name += fmt::format("_seed={}", seed);
  run.config = vary_config(base, settings, run.left_out);
  return run;
}

// All combinations of values, the last key changing fastest; one empty combination without keys.
std::vector<std::vector<std::string>> combinations(const std::vector<Variation>& variations) {
  std::vector<std::vector<std::string>> all = {{}};
  for (const auto& variation : variations) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& prefix : all)
      for (const auto& value : variation.values) {
        longer.push_back(prefix);
        longer.back().push_back(value);
      }
    all = std::move(longer);
  }
  return all;
}

// ---- what a directory remembers

// Of the part of every sample.
std::string hash_of(const Split& split) {
  return hex(hash64(std::as_bytes(split.parts.as<uint8_t>())));
}

// {screen: {split: {"xxh3": of its parts, "how": it was made}}}
Json drawn_json(const Grid& grid) {
  Json json = Json::object();
  for (const auto& [path, splits] : grid.drawn)
    for (const auto& [name, split] : splits)
      json[path][name] = {{"xxh3", hash_of(split)}, {"how", split.how}};
  return json;
}

Json to_json(const Grid& grid, const std::string& command) {
  Json vary = Json::array();
  for (const auto& variation : grid.variations)
    vary.push_back({{"key", variation.key}, {"values", variation.values}});
  Json screens = Json::object();
  for (const auto& [path, fingerprint] : grid.screens) screens[path] = fingerprint.to_json();
  return {{"format", kFormat},     {"version", kVersion},       {"command", command},
          {"splits", grid.splits}, {"seeds", grid.seeds},       {"vary", vary},
          {"screens", screens},    {"drawn", drawn_json(grid)}, {"config", to_yaml(grid.base)}};
}

struct StoredGrid {
  std::vector<std::string> splits;
  uint64_t seeds;
  std::vector<Variation> variations;
  Config base;
  std::map<std::string, Fingerprint> screens;
  struct Drawn {
    std::string hash;
    Split how;  // without its parts
  };
  std::map<std::string, std::map<std::string, Drawn>> drawn;  // by screen and name
};

StoredGrid read_stored(const fs::path& path) {
  const Json json = parse_sealed_json(read_text(path), path.string() + " is damaged").json;
  try {
    if (json.at("format") != kFormat || json.at("version").get<int>() > kVersion)
      throw Error("{}: made by another version; name another --out", path.string());
    StoredGrid stored = {json.at("splits").get<std::vector<std::string>>(),
                         json.at("seeds").get<uint64_t>(),
                         {},
                         parse_config(json.at("config").get<std::string>(), {}),
                         {},
                         {}};
    for (const Json& vary : json.at("vary"))
      stored.variations.push_back(
          {vary.at("key").get<std::string>(), vary.at("values").get<std::vector<std::string>>()});
    for (const auto& [screen, fingerprint] : json.at("screens").items())
      stored.screens.emplace(place_of(screen), Fingerprint::from_json(fingerprint));
    const Json drawn_splits = json.value("drawn", Json::object());  // none in an older file
    for (const auto& [screen, splits] : drawn_splits.items())
      for (const auto& [name, drawn] : splits.items())
        stored.drawn[place_of(screen)][name] = {drawn.at("xxh3").get<std::string>(),
                                                {name, {}, drawn.at("how")}};
    return stored;
  } catch (const Json::exception&) {
    throw Error("{}: damaged; restore it or name another --out", path.string());
  } catch (const YAML::Exception&) {
    throw Error("{}: its config is damaged; restore it or name another --out", path.string());
  }
}

std::map<std::string, std::string> fixed_settings(const Config& base,
                                                  const std::vector<Variation>& variations) {
  std::map<std::string, std::string> settings = all_settings(base);
  settings.erase("split");
  settings.erase("train.seed");
  for (const auto& variation : variations) settings.erase(variation.key);
  return settings;
}

// A split that was drawn anew under its name.
std::string difference_of_splits(const StoredGrid& stored, const Grid& grid) {
  for (const auto& [path, splits] : grid.drawn) {
    const auto there = stored.drawn.find(path);
    if (there == stored.drawn.end()) continue;
    for (const auto& [name, split] : splits) {
      const auto then = there->second.find(name);
      if (then != there->second.end() && then->second.hash != hash_of(split))
        return fmt::format(
            "split '{}' of {} is not the one that its runs were trained on; make it as it was ({})",
            name, path, how_made(then->second.how));
    }
  }
  return "";
}

// Why the stored grid is not a part of this one; empty when it is.
std::string difference(const StoredGrid& stored, const Grid& grid) {
  std::set<std::string> here, there;
  for (const auto& variation : grid.variations) here.insert(variation.key);
  for (const auto& variation : stored.variations) there.insert(variation.key);
  if (here != there)
    return fmt::format("it varies [{}], this one [{}]", fmt::join(there, ", "),
                       fmt::join(here, ", "));
  const std::string differs = settings_difference(fixed_settings(stored.base, stored.variations),
                                                  fixed_settings(grid.base, grid.variations));
  if (!differs.empty()) return differs;
  for (const auto& split : stored.splits)
    if (!contains(grid.splits, split)) return fmt::format("it has split '{}' too", split);
  if (stored.seeds > grid.seeds)
    return fmt::format("it has {} seeds, this one {}", stored.seeds, grid.seeds);
  for (const auto& variation : stored.variations)
    for (const auto& other : grid.variations)
      for (const auto& text : variation.values)
        if (other.key == variation.key && !contains(other.values, text))
          return fmt::format("it has {}={} too", variation.key, text);
  for (const auto& [path, now] : grid.screens) {
    if (!stored.screens.contains(path)) continue;
    const Fingerprint& then = stored.screens.at(path);
    auto parts = then.differing_parts(now);
    if (parts.empty()) parts = now.differing_parts(then);
    if (!parts.empty())
      return fmt::format("its screen {} has changed since ('{}' differs)", path, parts[0]);
  }
  return difference_of_splits(stored, grid);
}

}  // namespace

Variation parse_variation(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw UsageError("--vary {} is not key=value,value; for example --vary train.lr=1e-3,3e-4",
                     text);
  Variation variation = {text.substr(0, equals), {""}};
  int depth = 0;
  char quote = 0;
  for (char c : text.substr(equals + 1)) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      variation.values.emplace_back();
      continue;
    }
    variation.values.back() += c;
  }
  for (const auto& value : variation.values) {
    if (value.empty()) throw UsageError("--vary {} has an empty value", text);
    if (std::count(variation.values.begin(), variation.values.end(), value) > 1)
      throw UsageError("--vary {} has {} twice", text, value);
  }
  return variation;
}

Grid make_grid(GridOptions options) {
  Config base = read_config(options.config, options.settings);
  make_paths_absolute(base);  // compare.json means the same in every directory
  if (options.splits.empty()) options.splits = {base.split};
  check_options(options);
  std::sort(options.variations.begin(), options.variations.end(),
            [](const Variation& a, const Variation& b) { return a.key < b.key; });
  Grid grid = {base, options.splits, options.seeds, options.variations, {}, {}, {}};
  std::set<std::string> names;
  for (uint64_t seed = 1; seed <= options.seeds; ++seed)
    for (const auto& split : options.splits)
      for (const auto& values : combinations(options.variations)) {
        GridRun run = make_run(base, options, split, values, seed);
        if (!names.insert(run.name).second)
          throw UsageError(
              "two runs would be called {}; their values differ only in signs that a "
              "directory's name does not show",
              run.name);
        if (run.config.evaluate.parts.empty())
          throw Error(
              "evaluate.parts is empty, so there is nothing to compare; for example --set "
              "evaluate.parts=[test]");
        grid.runs.push_back(std::move(run));
      }
  return grid;
}

std::vector<std::string> left_out_words(const Grid& grid) {
  std::map<std::string, std::vector<std::string>> by_model;
  for (const GridRun& run : grid.runs)
    if (!run.left_out.empty()) by_model[run.config.model["name"].as<std::string>()] = run.left_out;
  std::vector<std::string> lines;
  for (const auto& [model, keys] : by_model)
    lines.push_back(
        fmt::format("model {} has no {}: left out of its runs", model, fmt::join(keys, ", ")));
  return lines;
}

std::optional<FoldOf> fold_of(const Split& split) {
  if (!split.how.is_object() || !split.how.contains("folds")) return {};
  const Json& folds = split.how.at("folds");
  return FoldOf{folds.at("name").get<std::string>(), folds.at("of").get<uint64_t>(),
                split.how.at("test_genes").get<uint64_t>()};
}

std::vector<std::string> fold_splits(const fs::path& screen, const std::string& name) {
  std::map<uint64_t, std::string> found;
  uint64_t folds = 0;
  const Screen opened = Screen::open_unchecked(screen);
  for (const Split& split : opened.splits())
    if (const auto fold = fold_of(split); fold && fold->name == name) {
      folds = fold->folds;
      found[split.how.at("folds").at("fold").get<uint64_t>()] = split.name;
    }
  if (found.empty() || found.size() != folds)
    throw Error(
        "screen {} has {} folds '{}'; make them: `lacuna split {} --name {} --by gene "
        "--folds 5 --seed 1`",
        screen.string(), found.empty() ? "no" : fmt::format("only {} of {}", found.size(), folds),
        name, screen.string(), name);
  std::vector<std::string> names;
  for (const auto& [fold, split] : found) names.push_back(split);
  return names;
}

void read_screens(Grid& grid) {
  std::map<std::string, Screen> screens;
  for (const auto& run : grid.runs) {
    const std::string path = place_of(run.config.screen);
    if (!screens.contains(path)) {
      const Screen& screen = screens.emplace(path, Screen::open(path)).first->second;
      grid.screens.emplace(path, screen.fingerprint());
    }
    const std::vector<Split>& splits = screens.at(path).splits();
    const auto found = std::find_if(splits.begin(), splits.end(),
                                    [&](const Split& split) { return split.name == run.split; });
    if (found != splits.end()) {
      grid.drawn[path].emplace(run.split, *found);
      continue;
    }
    const std::vector<std::string> kinds = {"random", "stratified", "gene", "pair"};
    throw Error(
        "screen {} has no split '{}'; make it: `lacuna split {} --name {} --by {} --seed 1`", path,
        run.split, path, run.split,
        contains(kinds, run.split) ? run.split : fmt::format("{}", fmt::join(kinds, "|")));
  }
}

const Split& split_of(const Grid& grid, const GridRun& run) {
  return grid.drawn.at(place_of(run.config.screen)).at(run.split);
}

bool knows_splits(const fs::path& out) {
  const fs::path path = out / "compare.json";
  return fs::exists(path) && !read_stored(path).drawn.empty();
}

void claim_directory(const fs::path& out, const Grid& grid, const std::string& command) {
  const fs::path path = out / "compare.json";
  if (fs::exists(path)) {
    const StoredGrid stored = read_stored(path);
    const std::string differs = difference(stored, grid);
    if (!differs.empty())
      throw Error(
          "{} holds another comparison: {}; ask for the same or for more, or name another "
          "--out",
          out.string(), differs);
  } else {
    std::error_code error;
    fs::create_directories(out, error);
    if (error) throw Error("{}: cannot create the directory: {}", out.string(), error.message());
    if (!fs::is_empty(out))
      throw Error("{} holds something else (it has no compare.json); name another --out",
                  out.string());
  }
  write_sealed_json(path, to_json(grid, command));
}

}  // namespace lacuna
