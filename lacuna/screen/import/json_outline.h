// Finds the few parts of a large JSON text that are worth reading, without reading the rest.
//
// simdjson's first stage lists where brackets, commas and values begin; this walks that list, and
// skips a nested value by counting brackets, one table look-up each. simdjson's own on-demand
// parser takes an unpredictable branch for every comma it skips: with records of which 95% is not
// wanted, that took half of the time.
//
// The first stage is public in simdjson's header, but not in its manual. It is the same in versions
// 3.0.1, 3.6.4 and 3.12.3, with which this was tested; a version that changes it does not compile.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace lacuna {

class JsonOutline {
 public:
  JsonOutline();
  ~JsonOutline();

  // `text` is a list of objects; returns what each has under `key` (views into the text; the first
  // when a key is repeated). At least simdjson's padding must be readable after the text. Throws
  // Error for other text, an object without the key, or an empty list. Skipped values are only
  // checked for quotes, brackets and UTF-8.
  const std::vector<std::string_view>& values(std::string_view text, std::string_view key);

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<std::string_view> values_;
};

}  // namespace lacuna
