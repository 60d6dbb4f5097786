#include "lacuna/store/fingerprint.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"

namespace lacuna {

const FingerprintPart* Fingerprint::find(const std::string& name) const {
  const auto at = std::find_if(parts_.begin(), parts_.end(),
                               [&](const FingerprintPart& part) { return part.name == name; });
  return at == parts_.end() ? nullptr : &*at;
}

void Fingerprint::add(std::string name, uint64_t hash) {
  LACUNA_ASSERT(!find(name));
  parts_.push_back({std::move(name), hash});
}

uint64_t Fingerprint::value() const {
  Hasher hasher;
  for (const auto& part : parts_) hasher.add(part.name + "=" + hex(part.hash) + "\n");
  return hasher.value();
}

std::vector<std::string> Fingerprint::differing_parts(const Fingerprint& other) const {
  std::vector<std::string> names;
  for (const auto& part : parts_) {
    const FingerprintPart* const there = other.find(part.name);
    if (!there || there->hash != part.hash) names.push_back(part.name);
  }
  return names;
}

Fingerprint Fingerprint::only(const std::vector<std::string>& prefixes) const {
  Fingerprint chosen;
  for (const auto& part : parts_) {
    const bool wanted = std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
      return part.name.starts_with(prefix);
    });
    if (wanted) chosen.add(part.name, part.hash);
  }
  return chosen;
}

Json Fingerprint::to_json() const {
  Json json = Json::object();
  for (const auto& part : parts_) json[part.name] = hex(part.hash);
  return json;
}

Fingerprint Fingerprint::from_json(const Json& json) {
  Fingerprint fingerprint;
  for (const auto& [name, value] : json.items())
    fingerprint.add(name, hash_from_hex(value.get<std::string>()));
  return fingerprint;
}

}  // namespace lacuna
