#include "lacuna/screen/import/json_record.h"

#include <libdeflate.h>
#include <simdjson.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/screen/import/json_outline.h"

namespace lacuna {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr size_t kLargestRecord = size_t(1) << 30;

// Compressed by zlib: deflate in the first byte, and the first two a multiple of 31. JSON text
// cannot start like that.
bool is_zlib(std::span<const std::byte> value) {
  return value.size() > 2 && (uint8_t(value[0]) & 0x0f) == 8 &&
         (uint32_t(value[0]) << 8 | uint32_t(value[1])) % 31 == 0;
}

// Whether a field is missing or of another type; throws for damaged text.
bool is_absent(simdjson::error_code code) {
  if (code == simdjson::NO_SUCH_FIELD || code == simdjson::INCORRECT_TYPE) return true;
  if (code != simdjson::SUCCESS) throw simdjson::simdjson_error(code);
  return false;
}

void set_text(ondemand::value value, std::string& text) {
  std::string_view view;
  if (!is_absent(value.get_string().get(view))) text = view;
}

// A number; NaN for null and for NaN as Python writes it. `is_number` false: something else.
double number_of(ondemand::value value, bool& is_number) {
  double number = 0;
  is_number = true;
  if (value.get_double().get(number) == simdjson::SUCCESS && std::fabs(number) <= double(FLT_MAX))
    return number;
  const std::string_view token = value.raw_json_token();
  is_number = token.starts_with("null") || token.starts_with("NaN");
  return NAN;
}

// Media and temperature are plain values, or objects {"name", "state"} and {"value", "unit"}.
void read_environment(ondemand::object environment, JsonRecord::Conditions& conditions) {
  bool is_number = true;
  for (ondemand::field field : environment) {
    const auto key = field.key();
    ondemand::value value = field.value();
    const bool is_object = value.type() == ondemand::json_type::object;
    if (key == "media" && !is_object) set_text(value, conditions.media);
    if (key == "media" && is_object)
      for (ondemand::field part : value.get_object()) {
        if (part.key() == "name")
          set_text(part.value(), conditions.media);
        else if (part.key() == "state")
          set_text(part.value(), conditions.media_state);
      }
    if (key == "temperature" && !is_object) conditions.temperature = number_of(value, is_number);
    if (key == "temperature" && is_object)
      for (ondemand::field part : value.get_object()) {
        if (part.key() == "value")
          conditions.temperature = number_of(part.value(), is_number);
        else if (part.key() == "unit")
          set_text(part.value(), conditions.temperature_unit);
      }
  }
}

void read_genotype(ondemand::object genotype, std::vector<JsonRecord::Perturbation>& out) {
  ondemand::array perturbations;
  if (is_absent(genotype.find_field_unordered("perturbations").get_array().get(perturbations)))
    throw Error("its genotype has no list of perturbations");
  for (ondemand::object perturbation : perturbations) {
    JsonRecord::Perturbation& entry = out.emplace_back();
    for (ondemand::field field : perturbation) {
      if (field.key() == "systematic_gene_name")
        set_text(field.value(), entry.gene);
      else if (field.key() == "perturbation_type")
        set_text(field.value(), entry.type);
    }
    if (entry.gene.empty()) throw Error("a perturbation has no systematic_gene_name");
  }
}

// The label's value may stand before its name, so fields are looked up, not walked.
void read_phenotype(ondemand::object phenotype, JsonRecord::Measurement& out) {
  std::string_view name;
  if (is_absent(phenotype.find_field_unordered("label_name").get_string().get(name)))
    throw Error("its phenotype has no label_name");
  out = {std::string(name), NAN, true, {}, NAN};
  ondemand::value value;
  if (!is_absent(phenotype.find_field_unordered(out.label).get(value)))
    out.value = number_of(value, out.is_number);
  if (is_absent(phenotype.find_field_unordered("label_statistic_name").get_string().get(name)))
    return;
  out.statistic_name = name;
  bool is_number = true;
  if (!is_absent(phenotype.find_field_unordered(out.statistic_name).get(value)))
    out.statistic = number_of(value, is_number);
}

void read_experiment(ondemand::object experiment, JsonRecord& record,
                     JsonRecord::Conditions& conditions) {
  bool has_genotype = false, has_phenotype = false;
  conditions = {{}, {}, {}, {}, {}, NAN};
  for (ondemand::field field : experiment) {
    const auto key = field.key();
    if (key == "genotype") {
      has_genotype = true;
      read_genotype(field.value().get_object(), record.perturbations);
    } else if (key == "phenotype") {
      has_phenotype = true;
      read_phenotype(field.value().get_object(), record.measurements.emplace_back());
    } else if (key == "environment") {
      read_environment(field.value().get_object(), conditions);
    } else if (key == "experiment_type") {
      set_text(field.value(), conditions.experiment_type);
    } else if (key == "dataset_name") {
      set_text(field.value(), conditions.dataset_name);
    }
  }
  if (!has_genotype) throw Error("an experiment has no genotype");
  if (!has_phenotype) throw Error("an experiment has no phenotype");
}

}  // namespace

bool JsonRecord::Conditions::operator==(const Conditions& other) const {
  return media == other.media && media_state == other.media_state &&
         temperature_unit == other.temperature_unit && experiment_type == other.experiment_type &&
         dataset_name == other.dataset_name &&
         (temperature == other.temperature ||
          (std::isnan(temperature) && std::isnan(other.temperature)));
}

struct JsonRecordReader::State {
  State() : decompressor(libdeflate_alloc_decompressor(), &libdeflate_free_decompressor) {}

  void reserve(size_t bytes) {
    if (buffer.size() < bytes + simdjson::SIMDJSON_PADDING)
      buffer.resize(bytes + simdjson::SIMDJSON_PADDING);
  }

  // The JSON text, in the buffer, followed by padding.
  std::string_view unpack(std::span<const std::byte> value) {
    if (!is_zlib(value)) {
      reserve(value.size());
      std::ranges::copy(value, reinterpret_cast<std::byte*>(buffer.data()));
      return {buffer.data(), value.size()};
    }
    reserve(8 * value.size());
    while (buffer.size() <= kLargestRecord) {
      size_t length = 0;
      const auto result =
          libdeflate_zlib_decompress(decompressor.get(), value.data(), value.size(), buffer.data(),
                                     buffer.size() - simdjson::SIMDJSON_PADDING, &length);
      if (result == LIBDEFLATE_SUCCESS) return {buffer.data(), length};
      if (result != LIBDEFLATE_INSUFFICIENT_SPACE) throw Error("its zlib data is damaged");
      reserve(2 * buffer.size());
    }
    throw Error("its zlib data is over 1 GB of text");
  }

  std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> decompressor;
  JsonOutline outline;
  ondemand::parser parser;
  std::vector<char> buffer;
  JsonRecord::Conditions others;  // of an experiment after the first
};

JsonRecordReader::JsonRecordReader() : state_(std::make_unique<State>()) {}
JsonRecordReader::~JsonRecordReader() = default;
JsonRecordReader::JsonRecordReader(JsonRecordReader&&) noexcept = default;

void JsonRecordReader::read(std::span<const std::byte> value, JsonRecord& record) {
  record.perturbations.clear();
  record.measurements.clear();
  record.mixed_conditions = false;
  const std::string_view text = state_->unpack(value);
  try {
    bool first = true;
    for (const std::string_view experiment : state_->outline.values(text, "experiment")) {
      const size_t room = size_t(state_->buffer.data() + state_->buffer.size() - experiment.data());
      ondemand::document document = state_->parser.iterate(
          simdjson::padded_string_view(experiment.data(), experiment.size(), room));
      ondemand::object object;
      if (is_absent(document.get_object().get(object)))
        throw Error("an experiment is not an object");
      JsonRecord::Conditions& conditions = first ? record.conditions : state_->others;
      read_experiment(object, record, conditions);
      if (!first && !(conditions == record.conditions)) record.mixed_conditions = true;
      first = false;
    }
  } catch (const simdjson::simdjson_error& error) {
    throw Error("not the JSON of a record: {}", error.what());
  }
}

}  // namespace lacuna
