#include "lacuna/recording/transforms/transform_settings.h"

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

Json scalar(const YAML::Node& node) {
  if (node.Tag() == "!") return node.Scalar();  // in quotes
  if (int64_t whole; YAML::convert<int64_t>::decode(node, whole)) return whole;
  if (double number; YAML::convert<double>::decode(node, number)) return number;
  if (bool flag; YAML::convert<bool>::decode(node, flag)) return flag;
  return node.Scalar();
}

}  // namespace

Json transform_settings(const YAML::Node& node) {
  if (node.IsScalar()) return scalar(node);
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& one : node) list.push_back(transform_settings(one));
    return list;
  }
  Json map = Json::object();
  if (node.IsMap())
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      if (map.contains(key)) throw Error("'{}' is there twice", key);
      map[key] = transform_settings(entry.second);
    }
  return map;
}

Json read_transform_settings(const fs::path& file) {
  try {
    const YAML::Node root = YAML::Load(read_text(file));
    if (!root.IsMap()) throw Error("not a map of new fields; see docs/recordings.md");
    return transform_settings(root["transforms"] && root.size() == 1 ? root["transforms"] : root);
  } catch (const YAML::Exception& error) {
    throw Error("{}: not YAML: {}", file.string(), error.what());
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(file.string())) throw;
    throw Error("{}: {}", file.string(), error.what());
  }
}

}  // namespace lacuna
