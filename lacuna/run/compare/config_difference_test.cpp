#include "lacuna/run/compare/config_difference.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

std::string difference(const std::string& run, const std::string& asked) {
  const std::string screen = "screen: /a/screen\n";
  return config_difference(parse_config(screen + run, {}), parse_config(screen + asked, {}));
}

TEST(ConfigDifference, NamesTheKeyAndBothValues) {
  EXPECT_EQ(difference("train: {lr: 1e-3}", "train: {lr: 3e-4}"),
            "its train.lr is '1e-3', here '3e-4'");
  EXPECT_EQ(difference("labels: [a]", "labels: [a, b]"), "its labels is '[a]', here '[a, b]'");
  EXPECT_EQ(difference("model: {name: mlp}", "model: {name: dango}"),
            "its model.dropout is '0.1', here not set");
  EXPECT_EQ(difference("train: {batch: auto}", "train: {batch: 28}"),
            "its train.batch is 'auto', here '28'");
  EXPECT_ERROR(difference("", "model: {widht: 3}"), "did you mean 'model.width'?");
}

TEST(ConfigDifference, WhatMeansTheSameIsTheSame) {
  EXPECT_EQ(difference("", ""), "");
  EXPECT_EQ(difference("train: {lr: 1e-3}", "train: {lr: 0.001}"), "");
  EXPECT_EQ(difference("train: {batch: 28}", "train: {batch: auto}"), "");
  EXPECT_EQ(difference("labels: [a, b]", "labels:\n- a\n- b\n"), "");
  // A run's config has all that its model was made with; what was set once must be set again.
  EXPECT_EQ(difference("model: {name: mlp, width: 64, dropout: 0.1}", "model: {name: mlp}"), "");
  EXPECT_EQ(difference("model: {name: mlp, width: 32}", "model: {name: mlp}"),
            "its model.width is '32', here '64'");
}

TEST(ConfigDifference, ScreenAndStoreMayMove) {
  EXPECT_EQ(config_difference(parse_config("screen: /a", {}), parse_config("screen: /b", {})), "");
  EXPECT_EQ(difference("store: /a", "store: ''"), "");
}

TEST(ConfigDifference, PathsArePlaces) {
  const auto screens = [](const std::string& run, const std::string& asked) {
    return settings_difference(all_settings(parse_config("screen: " + run, {})),
                               all_settings(parse_config("screen: " + asked, {})));
  };
  const std::string here = fs::current_path().string();
  EXPECT_EQ(screens(here + "/screen", "screen"), "");
  EXPECT_EQ(screens(here + "/screen", "./other/../screen"), "");
  EXPECT_EQ(screens("/a/screen", "/b/screen"), "its screen is '/a/screen', here '/b/screen'");
}

}  // namespace
}  // namespace lacuna
