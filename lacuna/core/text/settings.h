// Settings by name, from YAML: read with checks that name the key, its value and what is possible.
//
// All settings are stated as a YAML text with their defaults, so that text is the list of what can
// be set; a key that is not in it is an Error with the nearest one that is.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lacuna {

// Lays `given` over `base`, level by level. Keys under `open` may be new: someone else checks them.
// Throws Error for a key that is not in `base`, and for one that `given` has twice.
void lay_over(YAML::Node base, const YAML::Node& given, const std::string& where,
              const std::string& open = "");
// Adds to `given` what it lacks of `defaults` (a YAML text). Throws Error for a key that is in
// `given` but not there.
void complete(YAML::Node given, const char* defaults, const std::string& where);

// The largest count unless the reader allows more: the product of two still fits 64 bits.
constexpr int64_t kMostCount = 1'000'000'000;
constexpr int64_t kMostWidth = 100'000;  // of a model: numbers per node

// A complete map of settings. `where` is its name in messages. An impossible value is an Error with
// the key, the value as it was written, and what is possible.
class Settings {
 public:
  Settings(const YAML::Node& node, std::string where) : node_(node), where_(std::move(where)) {}

  std::string text(const char* key) const;
  bool flag(const char* key) const;
  std::vector<std::string> list(const char* key) const;
  int64_t count(const char* key, int64_t least, int64_t most = kMostCount) const;
  // Finite.
  double number(const char* key, double least,
                double most = std::numeric_limits<double>::infinity()) const;
  std::string choice(const char* key, const std::vector<std::string>& choices) const;

 private:
  std::string full(const char* key) const { return where_.empty() ? key : where_ + "." + key; }
  std::string as_written(const char* key) const;
  template <class T>
  T read(const char* key, const std::string& wanted) const;

  YAML::Node node_;
  std::string where_;
};

}  // namespace lacuna
