#include "lacuna/measure/profile.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lacuna/core/scope.h"
#include "lacuna/core/testing.h"
#include "lacuna/nn/model.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

Config short_training(const TemporaryDirectory& folder, const std::string& model) {
  write_screen(folder / "screen", {small_graph(1), small_samples(1, 40), {thirds_split(40)}, {}});
  return parse_config("screen: " + (folder / "screen").string() +
                          "\nsplit: thirds\nmodel: " + model +
                          "\nlabels: [fitness]\ntrain: {epochs: 1, batch: 4, log_every: 1}\n",
                      {"evaluate.baselines=false"});
}

struct Thinker : Model {
  Thinker(const YAML::Node&, const GeneGraph&, int64_t labels)
      : score(register_parameter("score", at::zeros({labels}))) {}
  at::Tensor forward(const ModelInput& input) override {
    const Scope scope("thinking");
    return score.expand({input.batch(), -1});
  }
  std::map<std::string, at::Tensor> embeddings(const ModelInput&) override { return {}; }
  at::Tensor score;
};
const bool thinker = add_model<Thinker>("thinker", "name: thinker\n");

TEST(Profile, AScopeOfAnyNameIsPartOfTheRest) {
  ASSERT_TRUE(thinker);
  const TemporaryDirectory folder;
  const StepProfile profile =
      profile_step(short_training(folder, "{name: thinker}"), 2, [](const std::string&) {});
  const auto other = std::ranges::find(profile.cpu, "other", &ProfileCategory::name);
  ASSERT_NE(other, profile.cpu.end());
  EXPECT_GT(other->ms, 0);
  EXPECT_EQ(std::ranges::find(profile.cpu, "thinking", &ProfileCategory::name), profile.cpu.end());
  EXPECT_EQ(profile.trace.dump().find("thinking"), std::string::npos);
}

}  // namespace
}  // namespace lacuna
