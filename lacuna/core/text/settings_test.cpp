#include "lacuna/core/text/settings.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

constexpr const char* kDefaults = "width: 64\nmerge: sum\ndropout: 0.1\nsavings: true\nnames: []\n";

TEST(Settings, CompleteKeepsWhatIsGivenAndAddsTheRest) {
  YAML::Node given = YAML::Load("{merge: mean}");
  complete(given, kDefaults, "model");
  const Settings settings(given, "model");
  EXPECT_EQ(settings.text("merge"), "mean");
  EXPECT_EQ(settings.count("width", 1), 64);
  EXPECT_EQ(settings.number("dropout", 0), 0.1);
  EXPECT_TRUE(settings.flag("savings"));
  EXPECT_TRUE(settings.list("names").empty());
}

TEST(Settings, UnknownKeyIsNamedWithTheNearest) {
  EXPECT_ERROR(complete(YAML::Load("{widht: 3}"), kDefaults, "model"),
               "there is no setting 'model.widht'; did you mean 'model.width'?");
  EXPECT_ERROR(complete(YAML::Load("{drop_out: 3}"), kDefaults, "model"),
               "'model.drop_out'; did you mean 'model.dropout'?");
}

TEST(Settings, WrongValueIsNamedWithWhatIsPossible) {
  const Settings settings(
      YAML::Load("{width: wide, layers: 0, merge: som, dropout: 1.5, savings: maybe}"), "model");
  EXPECT_ERROR(settings.count("width", 1), "setting 'model.width' must be a whole number");
  EXPECT_ERROR(settings.count("layers", 1), "setting 'model.layers' is 0, but must be at least 1");
  EXPECT_ERROR(settings.number("dropout", 0, 1), "'model.dropout' is 1.5, but must be at most 1");
  EXPECT_ERROR(settings.flag("savings"), "setting 'model.savings' must be true or false");
  EXPECT_ERROR(settings.choice("merge", {"sum", "mean"}),
               "setting 'model.merge' is 'som', but must be one of: sum, mean");
}

TEST(Settings, LayOverGoesLevelByLevel) {
  const YAML::Node base = YAML::Load("{train: {lr: 1, epochs: 2}, model: {name: a}}");
  lay_over(base, YAML::Load("{train: {lr: 5}, model: {depth: 3}}"), "", "model");
  EXPECT_EQ(base["train"]["lr"].as<int>(), 5);
  EXPECT_EQ(base["train"]["epochs"].as<int>(), 2);
  EXPECT_EQ(base["model"]["name"].as<std::string>(), "a");
  EXPECT_EQ(base["model"]["depth"].as<int>(), 3);  // open: someone else checks it
  EXPECT_ERROR(lay_over(base, YAML::Load("{train: {epoch: 5}}"), "", "model"),
               "there is no setting 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_ERROR(lay_over(base, YAML::Load("{train: 5}"), ""), "'train' must hold keys and values");
}

}  // namespace
}  // namespace lacuna
