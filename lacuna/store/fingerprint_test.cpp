#include "lacuna/store/fingerprint.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

Fingerprint example() {
  Fingerprint fingerprint;
  fingerprint.add("genes", 1);
  fingerprint.add("edges gene.physical.gene", 2);
  fingerprint.add("samples 0:65536", 0xffffffffffffffffu);
  return fingerprint;
}

TEST(Fingerprint, NamesWhatDiffers) {
  Fingerprint other;
  other.add("genes", 1);
  other.add("edges gene.physical.gene", 3);
  EXPECT_EQ(example().differing_parts(other),
            (std::vector<std::string>{"edges gene.physical.gene", "samples 0:65536"}));
  EXPECT_EQ(other.differing_parts(example()),
            (std::vector<std::string>{"edges gene.physical.gene"}));
  EXPECT_TRUE(example().differing_parts(example()).empty());
}

TEST(Fingerprint, OnlyKeepsTheOrder) {
  const Fingerprint chosen = example().only({"samples", "genes"});
  ASSERT_EQ(chosen.parts().size(), 2u);
  EXPECT_EQ(chosen.parts()[0].name, "genes");
  EXPECT_EQ(chosen.parts()[1].name, "samples 0:65536");
  EXPECT_NE(chosen.value(), example().value());
}

TEST(Fingerprint, SurvivesJson) {
  const Fingerprint back = Fingerprint::from_json(Json::parse(example().to_json().dump()));
  EXPECT_EQ(back.parts(), example().parts());
  EXPECT_EQ(back.value(), example().value());
  EXPECT_ERROR(Fingerprint::from_json(Json{{"genes", "12"}}), "16 hex digits");
  EXPECT_ERROR(Fingerprint::from_json(Json{{"genes", "00c0ffee00c0ffeg"}}), "16 hex digits");
}

TEST(Fingerprint, ValueDependsOnEveryPart) {
  Fingerprint more = example();
  more.add("rules", 0);
  EXPECT_NE(more.value(), example().value());
}

}  // namespace
}  // namespace lacuna
