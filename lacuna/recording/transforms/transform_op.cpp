#include "lacuna/recording/transforms/transform_op.h"

#include <algorithm>
#include <array>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

const std::vector<std::string> kOpNames = {"normalise", "scale",       "symlog", "split_relu",
                                           "cast",      "crop",        "resize", "unsqueeze",
                                           "columns",   "difference",  "smooth", "basis",
                                           "max_norm",  "standardise", "whiten", kPythonOp};

class PythonOp : public TransformOp {
 public:
  OpKind kind() const override { return OpKind::whole_segment; }
  void apply(const RowBlock&, RowBlock&, const OpStatistic&) const override {
    LACUNA_ASSERT(false);
  }
};

std::unique_ptr<TransformOp> make_python_op(const std::string& name, const Json& settings) {
  if (name != kPythonOp) return nullptr;
  const std::string call = settings.is_string() ? settings.get<std::string>() : "";
  const size_t colon = call.rfind(':');
  if (colon == call.npos || colon == 0 || colon + 1 == call.size())
    throw Error("transform python is FILE.py:FUNCTION, not {}", settings.dump());
  return std::make_unique<PythonOp>();
}

}  // namespace

uint64_t RowBlock::columns() const {
  uint64_t product = 1;
  for (const uint64_t extent : row) product *= extent;
  return product;
}

void RowBlock::resize(uint64_t from, uint64_t rows, Shape row_shape) {
  first = from;
  count = rows;
  row = std::move(row_shape);
  values.resize(count * columns());
}

std::unique_ptr<TransformOp> make_transform_op(const std::string& name, const Json& settings) {
  for (const auto make : {make_pointwise_op, make_frame_op, make_neighbour_op, make_statistic_op,
                          make_whiten_op, make_python_op})
    if (auto op = make(name, settings)) return op;
  throw Error("there is no transform '{}'; there is {}", name, fmt::join(kOpNames, ", "));
}

OpSettings::OpSettings(std::string op, const Json& json, std::initializer_list<const char*> keys)
    : op_(std::move(op)), json_(json.is_null() ? Json::object() : json) {
  if (!json_.is_object())
    throw Error("transform {}: its settings are a map, not {}", op_, json_.dump());
  for (const auto& [key, value] : json_.items())
    if (std::none_of(keys.begin(), keys.end(), [&](const char* one) { return key == one; }))
      throw Error(
          "transform {} has no setting '{}'; there is {}", op_, key,
          keys.size() == 0
              ? "none"
              : fmt::format("{}",
                            fmt::join(std::vector<std::string>(keys.begin(), keys.end()), ", ")));
}

const Json* OpSettings::find(const char* key) const {
  const auto at = json_.find(key);
  return at == json_.end() ? nullptr : &*at;
}

void OpSettings::refuse(const char* key, const char* wanted) const {
  const Json* value = find(key);
  throw Error("transform {}: {} is {}, but must be {}", op_, key,
              value ? value->dump() : "not given", wanted);
}

double OpSettings::number(const char* key, std::optional<double> otherwise) const {
  const Json* value = find(key);
  if (!value && otherwise) return *otherwise;
  if (!value || !value->is_number()) refuse(key, "a number");
  return value->get<double>();
}

uint64_t OpSettings::count(const char* key, std::optional<uint64_t> otherwise) const {
  const Json* value = find(key);
  if (!value && otherwise) return *otherwise;
  if (!value || !value->is_number_integer() || value->get<int64_t>() < 0)
    refuse(key, "a whole number, at least 0");
  return value->get<uint64_t>();
}

std::string OpSettings::text(const char* key, const std::string& otherwise) const {
  const Json* value = find(key);
  if (!value) return otherwise;
  if (!value->is_string()) refuse(key, "a word");
  return value->get<std::string>();
}

bool OpSettings::flag(const char* key) const {
  const Json* value = find(key);
  if (!value) return false;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::vector<uint64_t> OpSettings::counts(const char* key) const {
  const Json* value = find(key);
  if (!value || !value->is_array() || value->empty()) refuse(key, "a list of whole numbers");
  std::vector<uint64_t> all;
  for (const Json& one : *value) {
    if (!one.is_number_integer() || one.get<int64_t>() < 0) refuse(key, "a list of whole numbers");
    all.push_back(one.get<uint64_t>());
  }
  return all;
}

}  // namespace lacuna
