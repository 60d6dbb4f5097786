#include "lacuna/report/measured_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lacuna/run/config.h"

namespace lacuna::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kConfig = R"(screen: /data/a
split: random
labels:
  - fitness
  - "a b"
store: ""
model:
  name: hetero_gin
  width: 64
train:
  lr: 1e-3
  batch: 28
evaluate:
  parts: [validation, test]
)";

Fingerprint fingerprint(uint64_t edges) {
  Fingerprint fingerprint;
  fingerprint.add("genes", 1);
  fingerprint.add("edges gene.a.gene", edges);
  return fingerprint;
}

Json data(uint64_t edges) {
  return {{"screen", {{"path", "/data/b"}, {"fingerprint", fingerprint(edges).to_json()}}}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

class MeasuredOnTest : public ::testing::Test {
 protected:
  MeasuredOnTest() {
    run_.settings = settings_of(kConfig, "");
    run_.info.device = profile_.device = "cpu";
    run_.info.fingerprint = fingerprint(2);
    profile_.config = kConfig;
    profile_.data = data(2);
    ladder_.screen = "/data/b";
    ladder_.fingerprint = fingerprint(2);
    ladder_.fingerprint.add("samples 0:20", 7);
    ladder_.batch = 28;
  }
  RunContents run_;
  StepProfile profile_;
  Ladder ladder_;
};

TEST_F(MeasuredOnTest, NothingToSayOfTheRunsOwn) {
  EXPECT_THAT(differences(run_, profile_), IsEmpty());
  EXPECT_THAT(differences(run_, ladder_), IsEmpty());
  profile_.config = replaced(replaced(kConfig, "1e-3", "0.001"), "/data/a", "/data/b");
  EXPECT_THAT(differences(run_, profile_), IsEmpty());  // the same number, the screen elsewhere
}

TEST_F(MeasuredOnTest, OtherSettings) {
  profile_.config = replaced(replaced(kConfig, "28", "64"), "  width: 64\n", "");
  EXPECT_THAT(differences(run_, profile_),
              ElementsAre("Measured with other settings than this run's: model.width not set (this "
                          "run: 64), train.batch 64 (this run: 28)."));
  ladder_.batch = 64;
  EXPECT_THAT(differences(run_, ladder_),
              ElementsAre("Measured with batch 64, while this run was trained with 28."));
  profile_.config = kConfig;
  profile_.device = "cuda:0";
  EXPECT_THAT(differences(run_, profile_),
              ElementsAre("Measured on cuda:0, while this run was trained on cpu."));
}

TEST_F(MeasuredOnTest, AnotherScreen) {
  profile_.data = data(3);
  ladder_.fingerprint = fingerprint(3);
  const auto words =
      "Measured on another screen than this run's: /data/b, whose edges gene.a.gene differ.";
  EXPECT_THAT(differences(run_, profile_), ElementsAre(words));
  EXPECT_THAT(differences(run_, ladder_), ElementsAre(words));
  run_.settings["graph"] = "shuffled";  // with edges of its own
  EXPECT_THAT(differences(run_, ladder_), IsEmpty());
}

TEST_F(MeasuredOnTest, WhatAFileDoesNotSayIsSaid) {
  EXPECT_THAT(differences(run_, StepProfile()),
              ElementsAre("The file does not say with which settings it was measured.",
                          "The file does not say on which screen it was measured."));
  run_.info.fingerprint = {};
  EXPECT_THAT(differences(run_, ladder_),
              ElementsAre("The run does not say on which screen it was trained."));
}

}  // namespace
}  // namespace lacuna::report
