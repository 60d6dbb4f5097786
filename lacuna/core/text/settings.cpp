#include "lacuna/core/text/settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/text/nearest.h"

namespace lacuna {
namespace {

std::string joined(const std::string& where, const std::string& key) {
  return where.empty() ? key : where + "." + key;
}

// `where` is the name of `known`. Searches one level further down, too: `epochs` is in `train`.
[[noreturn]] void throw_unknown(const std::string& where, const std::string& key,
                                const YAML::Node& known) {
  std::string nearest;
  size_t distance = std::max<size_t>(2, key.size() / 2) + 1;  // too far to be a misspelling
  const auto search = [&](const std::string& place, const YAML::Node& entries) {
    for (const auto& entry : entries) {
      const auto name = entry.first.as<std::string>();
      if (const size_t apart = letters_apart(key, name); apart < distance) {
        distance = apart;
        nearest = joined(place, name);
      }
    }
  };
  search(where, known);
  for (const auto& entry : known)
    if (entry.second.IsMap()) search(joined(where, entry.first.as<std::string>()), entry.second);
  if (!nearest.empty())
    throw Error("there is no setting '{}'; did you mean '{}'?", joined(where, key), nearest);
  std::vector<std::string> names;
  for (const auto& entry : known) names.push_back(entry.first.as<std::string>());
  throw Error("there is no setting '{}'; there are: {}", joined(where, key),
              fmt::join(names, ", "));
}

}  // namespace

void lay_over(YAML::Node base, const YAML::Node& given, const std::string& where,
              const std::string& open) {
  if (!given.IsMap())
    throw Error("{} must hold keys and values", where.empty() ? "the config" : "'" + where + "'");
  std::set<std::string> seen;
  for (const auto& entry : given) {
    if (!entry.first.IsScalar())
      throw Error("line {}: a key{} must be a word", entry.first.Mark().line + 1,
                  where.empty() ? "" : " of '" + where + "'");
    const auto key = entry.first.as<std::string>();
    const std::string full = joined(where, key);
    if (!seen.insert(key).second)
      throw Error("setting '{}' is given twice, again in line {}; keep one", full,
                  entry.first.Mark().line + 1);
    if ((where.empty() || where != open) && !base[key]) throw_unknown(where, key, base);
    if (base[key] && base[key].IsMap())
      lay_over(base[key], entry.second, full, open);
    else
      base[key] = entry.second;
  }
}

void complete(YAML::Node given, const char* defaults, const std::string& where) {
  const YAML::Node known = YAML::Load(defaults);
  for (const auto& entry : given) {
    const auto key = entry.first.as<std::string>();
    if (!known[key]) throw_unknown(where, key, known);
  }
  for (const auto& entry : known) {
    const auto key = entry.first.as<std::string>();
    if (!given[key]) given[key] = entry.second;
  }
}

template <class T>
T Settings::read(const char* key, const std::string& wanted) const {
  try {
    return node_[key].as<T>();
  } catch (const YAML::Exception&) {
    throw Error("setting '{}' must be {}, not {}", full(key), wanted, as_written(key));
  }
}

std::string Settings::as_written(const char* key) const {
  const YAML::Node node = node_[key];
  if (node.IsScalar()) return "'" + node.Scalar() + "'";
  return node.IsMap() ? "a map" : node.IsSequence() ? "a list" : "empty";
}

std::string Settings::text(const char* key) const {
  if (node_[key].IsNull()) return "";  // `key:` with nothing after it
  return read<std::string>(key, "a word");
}

bool Settings::flag(const char* key) const { return read<bool>(key, "true or false"); }

std::vector<std::string> Settings::list(const char* key) const {
  return read<std::vector<std::string>>(key, "a list, such as [a, b]");
}

int64_t Settings::count(const char* key, int64_t least, int64_t most) const {
  const auto value = read<int64_t>(key, fmt::format("a whole number from {} to {}", least, most));
  if (value < least)
    throw Error("setting '{}' is {}, but must be at least {}", full(key), value, least);
  if (value > most)
    throw Error("setting '{}' is {}, but must be at most {}", full(key), value, most);
  return value;
}

double Settings::number(const char* key, double least, double most) const {
  const auto value = read<double>(key, "a number");
  if (!std::isfinite(value))
    throw Error("setting '{}' is {}, but must be a finite number", full(key), as_written(key));
  if (value < least)
    throw Error("setting '{}' is {}, but must be at least {}", full(key), value, least);
  if (value > most)
    throw Error("setting '{}' is {}, but must be at most {}", full(key), value, most);
  return value;
}

std::string Settings::choice(const char* key, const std::vector<std::string>& choices) const {
  const std::string value = text(key);
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    throw Error("setting '{}' is '{}', but must be one of: {}", full(key), value,
                fmt::join(choices, ", "));
  return value;
}

}  // namespace lacuna
