#include "lacuna/screen/import/json_record.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

const std::string kRecord = R"([
  {"experiment_reference": {"text": "a \"brace\" } and ] here", "list": [1, [2, {"a": null}]]},
   "experiment": {
     "dataset_name": "set", "unused": {"genotype": 3}, "experiment_type": "interaction",
     "phenotype": {"gene_interaction": -0.25, "p": 1e-60, "label_statistic_name": "p",
                   "label_name": "gene_interaction"},
     "genotype": {"perturbations": [
       {"perturbation_type": "deletion", "systematic_gene_name": "YAL001C", "text": "\u00e9\n"},
       {"systematic_gene_name": "YAL002W", "perturbation_type": "damp"}]},
     "environment": {"temperature": {"unit": "Celsius", "value": 30}, "media": {"name": "SGMM"}}}},
  {"experiment": {"genotype": {"perturbations": []}, "environment": {"media": "YPD"},
                  "phenotype": {"label_name": "fitness", "fitness": NaN}}}
])";

std::string compressed(const std::string& text) {
  std::string packed(compressBound(text.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(text.data()), text.size());
  return packed.substr(0, size);
}

// From memory that ends where the value does, so that a sanitizer sees a read beyond it.
JsonRecord read(std::string_view value) {
  const std::vector<char> exact(value.begin(), value.end());
  JsonRecordReader reader;
  JsonRecord record;
  reader.read(std::as_bytes(std::span(exact)), record);
  return record;
}

TEST(JsonRecord, WhatIsKept) {
  for (const std::string& value : {kRecord, compressed(kRecord)}) {
    const JsonRecord record = read(value);
    ASSERT_EQ(record.perturbations.size(), 2u);
    EXPECT_EQ(record.perturbations[0].gene, "YAL001C");
    EXPECT_EQ(record.perturbations[1].type, "damp");
    ASSERT_EQ(record.measurements.size(), 2u);
    EXPECT_EQ(record.measurements[0].label, "gene_interaction");
    EXPECT_EQ(record.measurements[0].value, -0.25);
    EXPECT_EQ(record.measurements[0].statistic_name, "p");
    EXPECT_EQ(record.measurements[0].statistic, 1e-60);
    EXPECT_TRUE(std::isnan(record.measurements[1].value));
    EXPECT_TRUE(record.measurements[1].is_number);
    EXPECT_EQ(record.conditions.media, "SGMM");
    EXPECT_EQ(record.conditions.temperature, 30);
    EXPECT_EQ(record.conditions.dataset_name, "set");
    EXPECT_TRUE(record.mixed_conditions);
  }
}

TEST(JsonRecord, CutAnywhereIsAnError) {
  const std::string packed = compressed(kRecord);
  for (size_t cut = 0; cut < kRecord.size(); ++cut)
    EXPECT_THROW(read(kRecord.substr(0, cut)), Error) << cut;
  for (size_t cut = 0; cut < packed.size(); ++cut)
    EXPECT_THROW(read(packed.substr(0, cut)), Error) << cut;
}

// Damaged bytes give an Error or some record, never a bad access.
TEST(JsonRecord, DamageIsHarmless) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const std::string bytes = "{}[]\",:\\0e-n \x80\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string value = round % 4 == 0 ? compressed(kRecord) : kRecord;
    for (uint64_t i = 1 + random.below(3); i > 0; --i)
      value[random.below(value.size())] = bytes[random.below(bytes.size())];
    try {
      read(value);
    } catch (const Error&) {
    }
  }
}

// Brackets are counted, without recursion or memory: in values that are skipped, in those that are
// read, and around them.
TEST(JsonRecord, NestingWithoutEndIsHarmless) {
  constexpr size_t kDepth = 1'000'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const auto with = [&](const std::string& field, const std::string& value) {
    std::string text = kRecord;
    const size_t at = text.find("\"" + field + "\": ") + field.size() + 4;
    const size_t end = text.find_first_of(",}", at);
    return text.replace(at, end - at, value);
  };
  std::string passed_over = kRecord;
  passed_over.insert(passed_over.find("\"experiment_reference\""), "\"more\": " + deep + ", ");
  EXPECT_EQ(read(passed_over).perturbations.size(), 2u);
  for (const char* const field : {"dataset_name", "gene_interaction", "label_name", "media"}) {
    try {
      read(with(field, deep));
    } catch (const Error&) {
    }
  }
  EXPECT_THROW(read(deep), Error);
  EXPECT_THROW(read(std::string(kDepth, '[')), Error);
}

}  // namespace
}  // namespace lacuna
