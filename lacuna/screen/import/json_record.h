// One record of a JSON database: a list of experiments on the same strain, as one public pipeline
// of this field writes them (docs/import.md). Most of its 11 to 90 KB is not needed and is skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lacuna {

struct JsonRecord {
  struct Perturbation {
    std::string gene, type;  // systematic_gene_name; perturbation_type, empty when not given
  };
  struct Measurement {
    std::string label;  // label_name
    double value;       // NaN when null, missing or not a number
    bool is_number;     // false for a string, a list, infinity...
    std::string statistic_name;
    double statistic;
  };
  struct Conditions {
    std::string media, media_state, temperature_unit, experiment_type, dataset_name;
    double temperature;
    bool operator==(const Conditions& other) const;
  };
  std::vector<Perturbation> perturbations;  // of all experiments, repeats included
  std::vector<Measurement> measurements;    // one per experiment
  Conditions conditions;                    // of the first experiment
  bool mixed_conditions = false;            // another experiment has others
};

// Keeps its buffers from one record to the next; one thread at a time.
class JsonRecordReader {
 public:
  JsonRecordReader();
  ~JsonRecordReader();
  JsonRecordReader(JsonRecordReader&&) noexcept;

  // JSON text, or the same compressed by zlib (its first bytes tell). Throws Error, without the
  // key, for anything else, for damage, and for a record that lacks a genotype, a gene's name, a
  // phenotype or its label_name.
  void read(std::span<const std::byte> value, JsonRecord& record);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
