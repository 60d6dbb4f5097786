#include "lacuna/core/text/json.h"

#include <algorithm>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// The deepest nesting of brackets outside strings.
int bracket_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;  // whatever is escaped
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      deepest = std::max(deepest, ++depth);
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  if (bracket_depth(text) > kJsonDepth)
    throw Error("{}: brackets are nested deeper than {}; it is not a file of lacuna's", where,
                kJsonDepth);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw Error("{}: not valid JSON near byte {}; restore it or make it again", where, error.byte);
  } catch (const Json::out_of_range&) {
    throw Error("{}: it holds a number that is too large; restore it or make it again", where);
  }
}

Json read_json(const fs::path& path) { return parse_json(read_text(path), path.string()); }

}  // namespace lacuna
