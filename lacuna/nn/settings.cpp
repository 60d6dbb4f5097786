#include "lacuna/nn/settings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/nearest.h"

namespace lacuna {
namespace {

[[noreturn]] void throw_unknown(const std::string& key, const YAML::Node& known) {
  const std::string last = key.substr(key.rfind('.') + 1);
  std::vector<std::string> names;
  for (const auto& entry : known) names.push_back(entry.first.as<std::string>());
  throw Error("there is no setting '{}'; did you mean '{}'?", key, nearest_word(last, names));
}

}  // namespace

void lay_over(YAML::Node base, const YAML::Node& given, const std::string& where,
              const std::string& open) {
  if (!given.IsMap())
    throw Error("{} must hold keys and values", where.empty() ? "the config" : "'" + where + "'");
  for (const auto& entry : given) {
    const auto key = entry.first.as<std::string>();
    const std::string full = where.empty() ? key : where + "." + key;
    if ((where.empty() || where != open) && !base[key]) throw_unknown(full, base);
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
    if (!known[key]) throw_unknown(where + "." + key, known);
  }
  for (const auto& entry : known) {
    const auto key = entry.first.as<std::string>();
    if (!given[key]) given[key] = entry.second;
  }
}

template <class T>
T Settings::read(const char* key, const char* wanted) const {
  try {
    return node_[key].as<T>();
  } catch (const YAML::Exception&) {
    throw Error("setting '{}' must be {}", full(key), wanted);
  }
}

std::string Settings::text(const char* key) const {
  if (node_[key].IsNull()) return "";  // `key:` and nothing behind it
  return read<std::string>(key, "a word");
}

bool Settings::flag(const char* key) const { return read<bool>(key, "true or false"); }

std::vector<std::string> Settings::list(const char* key) const {
  return read<std::vector<std::string>>(key, "a list, such as [a, b]");
}

int64_t Settings::count(const char* key, int64_t least) const {
  const auto value = read<int64_t>(key, "a whole number");
  if (value < least)
    throw Error("setting '{}' is {}, but must be at least {}", full(key), value, least);
  return value;
}

double Settings::number(const char* key, double least, double most) const {
  const auto value = read<double>(key, "a number");
  if (!(value >= least))
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
