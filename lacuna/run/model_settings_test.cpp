#include "lacuna/run/model_settings.h"

#include <gmock/gmock.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// The real models need torch. These have their names, and settings to set, vary and leave out.
const bool known = [] {
  add_model_settings("hetero_gin",
                     "name: hetero_gin\nwidth: 64\nlayers: 3\nmerge: sum\ndropout: 0.1\n");
  add_model_settings("mlp", "name: mlp\nwidth: 64\ndropout: 0.1\n");
  add_model_settings("dango", "name: dango\nwidth: 64\nzero_weight: 0.1\n");
  add_model_settings("core_readout", "name: core_readout\nchannels: 64\n", DataKind::recording);
  return true;
}();

TEST(ModelSettings, WhatIsLeftOutIsTheModelsDefault) {
  ASSERT_TRUE(known);
  EXPECT_THAT(model_names(), ::testing::ElementsAre("dango", "hetero_gin", "mlp"));
  YAML::Node settings = YAML::Load("{name: mlp, width: 8}");
  complete_model(settings);
  EXPECT_EQ(settings["width"].as<int>(), 8);
  EXPECT_EQ(settings["dropout"].as<double>(), 0.1);
  EXPECT_ERROR(complete_model(YAML::Load("{name: gnn}")), "there are: dango, hetero_gin, mlp");
  EXPECT_ERROR(complete_model(YAML::Load("{name: mlp, layers: 2}")), "model.layers");
  EXPECT_ERROR(complete_model(YAML::Load("{width: 2}")), "the model has no name");
}

}  // namespace
}  // namespace lacuna
