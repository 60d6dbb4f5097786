#include "lacuna/screen/import/json_outline.h"

#include <simdjson.h>

#include <array>
#include <limits>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// What a character does to the depth of brackets.
constexpr std::array<int8_t, 256> make_depth_steps() {
  std::array<int8_t, 256> steps = {};
  steps['{'] = steps['['] = 1;
  steps['}'] = steps[']'] = -1;
  return steps;
}
constexpr std::array<int8_t, 256> kDepthStep = make_depth_steps();

void check(simdjson::error_code code) {
  if (code != simdjson::SUCCESS)
    throw Error("not the JSON of a record: {}", simdjson::error_message(code));
}

// A walk over the starts of brackets, commas, colons and values.
class Walk {
 public:
  Walk(std::string_view text, const uint32_t* starts, size_t count)
      : text_(text), starts_(starts), count_(count) {}

  bool at_end() const { return at_ == count_; }
  char look() const {
    if (at_end()) throw Error("not the JSON of a record: it ends too soon");
    return text_[starts_[at_]];
  }
  bool take_if(char wanted) {
    if (look() != wanted) return false;
    ++at_;
    return true;
  }
  void take(char wanted) {
    if (!take_if(wanted))
      throw Error("not the JSON of a record: '{}' expected at byte {}", wanted, starts_[at_]);
  }
  // Steps over a key and its colon; true when it is this one.
  bool take_key(std::string_view key) {
    const size_t begin = look() == '"' ? starts_[at_] + 1 : text_.size();
    take('"');
    take(':');
    return text_.size() - begin > key.size() && text_.substr(begin, key.size()) == key &&
           text_[begin + key.size()] == '"';
  }
  // Steps over a value, which reaches to the start of what follows it.
  std::string_view take_value() {
    const char first = look();
    if (kDepthStep[uint8_t(first)] < 0 || first == ',' || first == ':')
      throw Error("not the JSON of a record: a value expected at byte {}", starts_[at_]);
    const size_t begin = starts_[at_];
    int depth = kDepthStep[uint8_t(text_[starts_[at_++]])];
    for (; depth > 0 && at_ < count_; ++at_) depth += kDepthStep[uint8_t(text_[starts_[at_]])];
    if (depth > 0 || at_end()) throw Error("not the JSON of a record: it ends too soon");
    return text_.substr(begin, starts_[at_] - begin);
  }

 private:
  std::string_view text_;
  const uint32_t* starts_;
  size_t count_, at_ = 0;
};

std::string_view value_in_object(Walk& walk, std::string_view key) {
  std::string_view found;
  if (!walk.take_if('{')) throw Error("an entry of the list is not an object");
  if (walk.take_if('}')) return found;
  while (true) {
    const bool is_wanted = walk.take_key(key);
    const std::string_view value = walk.take_value();
    if (is_wanted && found.empty()) found = value;
    if (walk.take_if('}')) return found;
    walk.take(',');
  }
}

}  // namespace

struct JsonOutline::State {
  std::unique_ptr<simdjson::internal::dom_parser_implementation> stage;

  void reserve(size_t bytes) {
    if (!stage)
      check(simdjson::get_active_implementation()->create_dom_parser_implementation(
          bytes, simdjson::DEFAULT_MAX_DEPTH, stage));
    else if (stage->capacity() < bytes)
      check(stage->set_capacity(2 * bytes));
  }
};

JsonOutline::JsonOutline() : state_(std::make_unique<State>()) {}
JsonOutline::~JsonOutline() = default;

const std::vector<std::string_view>& JsonOutline::values(std::string_view text,
                                                         std::string_view key) {
  values_.clear();
  state_->reserve(text.size());
  auto& stage = *state_->stage;
  check(stage.stage1(reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                     simdjson::stage1_mode::regular));
  Walk walk(text, stage.structural_indexes.get(), stage.n_structural_indexes);
  if (!walk.take_if('[')) throw Error("not a list of experiments");
  if (walk.look() == ']') throw Error("an empty list of experiments");
  do {
    const std::string_view value = value_in_object(walk, key);
    if (value.empty()) throw Error("an entry of the list has no {}", key);
    values_.push_back(value);
  } while (walk.take_if(','));
  walk.take(']');
  if (!walk.at_end()) throw Error("text behind the list of experiments");
  return values_;
}

}  // namespace lacuna
